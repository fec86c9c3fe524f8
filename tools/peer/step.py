"""Measures a training step of SpecForge's objective in PyTorch and one of ours, on the same batch and with drafters of
the same shape (see README.md).

    $(tools/peer/setup.sh) tools/peer/step.py --shape small --json OUT

The two take turns in one run: `draftsmith bench step --serve` does a step when it is asked for one. A step is forward,
backward and optimizer on random features. SpecForge's has bf16 autocast over fp32 weights and fused AdamW; ours has
bf16 products over fp32 masters. Memory is the peak of a step beyond parameters, gradients, moments, embedding and head.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from safetensors.torch import load_file

import specforge_objective as sf
from train_tau import decay_gamma, say

SHAPES = {
    "small": dict(hidden=576, intermediate=1536, layers=3, heads=9, kv_heads=3, head_dim=64, vocab=49152, block_size=8, row=512,
                  anchors=192, speed_bar=2.2, memory_bar=1 / 3),
    "mid": dict(hidden=2048, intermediate=6144, layers=5, heads=16, kv_heads=8, head_dim=128, vocab=151936, block_size=16, row=2048,
                anchors=128, speed_bar=1.7, memory_bar=1 / 4),
}
TAPS, TARGET_LAYERS = [1, 7, 14, 20, 26], 30


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = p.add_argument
    add("--shape", default="small", choices=sorted(SHAPES))
    add("--repeats", type=int, default=5, help="measured steps of each, in turns")
    add("--threads", type=int, default=os.cpu_count())
    add("--attention", default="auto", choices=("auto", "sdpa", "eager"), help="auto: the faster of one step each (flex_attention "
        "has no backward on a CPU)")
    add("--objective-chunk", type=int, default=-1, help="blocks of logits at once, recomputed in backward; 0: all at once, faster; "
        "default: 0 while the logits take at most 4 GB")
    add("--draftsmith", default=os.path.join(os.path.dirname(__file__), "../../build/draftsmith"))
    add("--json", default="", help="file for the figures")
    return p.parse_args()


# ---- this process's memory, counted as ours is ------------------------------------------------------------------------
def status_bytes(name):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name))


def extra_bytes(step, parameters):
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    kept = status_bytes("VmRSS:")
    step()
    return status_bytes("VmHWM:") - kept - 4 * parameters


class Ours:
    """Runs `draftsmith bench step --serve`, which answers each line with a line of JSON."""

    def __init__(self, args, batch):
        self.process = subprocess.Popen([args.draftsmith, "bench", "step", "--serve", "--shape", args.shape, "--threads",
                                         str(args.threads), "--write-batch", batch], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("step: draftsmith bench step --serve stopped; build it first (./build.sh draftsmith)")
        return json.loads(line)

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Theirs:
    """Runs SpecForge's drafter and objective with fused AdamW."""

    def __init__(self, shape, batch, attention, chunk):
        torch.manual_seed(1)
        s = shape
        self.drafter = sf.DFlashDraftModel(sf.drafter_config(
            hidden=s["hidden"], intermediate=s["intermediate"], layers=s["layers"], heads=s["heads"], kv_heads=s["kv_heads"],
            head_dim=s["head_dim"], vocab=s["vocab"], block_size=s["block_size"], mask_token_id=s["vocab"] - 1, taps=TAPS,
            num_target_layers=TARGET_LAYERS, rope_theta=10000.0, eps=1e-6, attention=attention)).float()
        table = torch.empty(s["vocab"], s["hidden"], dtype=torch.bfloat16).normal_(0, 0.1)
        self.model = sf.OnlineDFlashModel(self.drafter, sf.frozen_head(table, torch.bfloat16), sf.frozen_embedding(table), s["vocab"] - 1,
                                          block_size=s["block_size"], attention_backend="sdpa", num_anchors=s["anchors"],
                                          loss_decay_gamma=decay_gamma(s["block_size"]), objective_chunk_blocks=chunk)
        anchors = batch["anchors"].unsqueeze(0)
        self.model._sample_anchor_positions = lambda *_: (anchors, torch.ones_like(anchors, dtype=torch.bool))
        self.batch = [batch[k].unsqueeze(0) for k in ("token_ids", "target_hidden", "loss_mask")]
        self.parameters = list(self.drafter.parameters())
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-4, weight_decay=0.0, fused=True)

    def step(self):
        began = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss, _, _ = self.model(*self.batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - began


def faster_attention(args, shape, batch, chunk):
    if args.attention != "auto":
        return args.attention
    seconds = {}
    for attention in ("sdpa", "eager"):
        theirs = Theirs(shape, batch, attention, chunk)
        theirs.step()
        seconds[attention] = theirs.step()
        say(f"step: {attention} {seconds[attention]:.2f} s")
        del theirs
    return min(seconds, key=seconds.get)


def main():
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    shape = SHAPES[args.shape]
    chunk = args.objective_chunk
    if chunk < 0:  # 12 bytes hold a bf16 logit, its fp32 softmax and the gradients of both
        chunk = 0 if shape["anchors"] * shape["block_size"] * shape["vocab"] * 12 <= 4e9 else 128
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "batch.safetensors")
        ours = Ours(args, file)
        batch = load_file(file)
    attention = faster_attention(args, shape, batch, chunk)
    theirs = Theirs(shape, batch, attention, chunk)
    theirs.step()
    seconds = {"draftsmith": [], "specforge": []}
    for i in range(args.repeats):
        seconds["draftsmith"].append(ours.ask("step")["seconds"])
        seconds["specforge"].append(theirs.step())
        say(f"step {i + 1}: draftsmith {seconds['draftsmith'][-1]:.3f} s, specforge {seconds['specforge'][-1]:.3f} s")
    memory = {"draftsmith": ours.ask("memory")["extra_bytes"],
              "specforge": extra_bytes(theirs.step, sum(p.numel() for p in theirs.parameters))}
    ours.close()
    median = {k: statistics.median(v) for k, v in seconds.items()}
    speed, memory_share = median["specforge"] / median["draftsmith"], memory["draftsmith"] / memory["specforge"]
    result = {"shape": args.shape, "threads": args.threads, "attention": attention, "objective_chunk": chunk, "seconds": seconds,
              "median_seconds": median, "tokens_per_second": {k: shape["row"] / v for k, v in median.items()}, "extra_bytes": memory,
              "speed_ratio": speed, "memory_ratio": memory_share,
              "bars": {"speed": {"at_least": shape["speed_bar"], "holds": speed >= shape["speed_bar"]},
                       "memory": {"at_most": shape["memory_bar"], "holds": memory_share <= shape["memory_bar"]}}}
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=1)
    for k in ("draftsmith", "specforge"):
        print(f"{k:12}{median[k]:9.3f} s a step {shape['row'] / median[k]:9.0f} tokens/s {memory[k] / 1e9:8.2f} GB beyond the kept tensors")
    print(f"{speed:.2f} x the tokens a second (bar {shape['speed_bar']}), {memory_share:.2f} of the memory (bar {shape['memory_bar']:.2f})")
    return 0 if all(bar["holds"] for bar in result["bars"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
