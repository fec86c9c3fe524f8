#!/usr/bin/env python3
"""Prints the demo's last page, one table of what eval, train and llama.cpp left in the run's folder, for demo.sh."""
import json
import os
import sys


def last_state(run):
    folder = os.path.join(run, "checkpoints")
    newest = max(name for name in os.listdir(folder) if name.startswith("step-"))
    with open(os.path.join(folder, newest, "state.json"), encoding="utf-8") as f:
        return os.path.join(folder, newest), json.load(f)


def row(name, value):
    print(f"  {name:<26} {value}")


def main():
    run = sys.argv[1]
    with open(os.path.join(run, "eval.json"), encoding="utf-8") as f:
        report = json.load(f)
    with open(os.path.join(run, "llama.json"), encoding="utf-8") as f:
        llama = json.load(f)
    with open(os.path.join(run, "drafter-hf", "config.json"), encoding="utf-8") as f:
        drafter = json.load(f)
    checkpoint, state = last_state(run)
    whole = report["all"]
    print("\nDraftsmith demo")
    row("target", report["target"])
    row("drafter", f"{drafter['num_hidden_layers']} layers, block size {drafter['block_size']}, "
                   f"taps {drafter['dflash_config']['target_layer_ids']}; {checkpoint}")
    row("steps", f"{state['step']} in {state['seconds'] / 60:.1f} minutes")
    row("tau, all prompts", f"{whole['tau_over_steps']:.3f} over steps, {whole['tau_over_requests']:.3f} over requests")
    for kind in report["kinds"]:
        row(f"  {kind['kind']}", f"{kind['tau_over_steps']:.3f}   ({kind['requests']} prompts)")
    row("accepted per slot", "  ".join(f"{100 * share:.1f}%" for share in whole["acceptance_per_slot"]))
    row("tokens/s plain", f"{whole['plain_tokens_per_second']:.1f}")
    row("tokens/s with drafter", f"{whole['drafted_tokens_per_second']:.1f}")
    row("tokens/s in llama.cpp", f"{llama['tokens_per_second']:.1f} with the drafter (tau {llama['tau']:.3f})")
    lossless = report["lossless"]
    row("lossless", f"{'yes' if lossless['passed'] else 'NO'}: {lossless['failures']} failures, {lossless['ties']} ties "
                    f"in {lossless['requests']} requests")
    row("plot", os.path.join(run, "plot.svg"))
    row("for llama.cpp", os.path.join(run, "drafter.gguf"))
    row("for z-lab, SGLang, vLLM", os.path.join(run, "drafter-hf"))


if __name__ == "__main__":
    main()
