"""Trains a DFlash drafter with SpecForge's objective in PyTorch on the data that `draftsmith prepare` wrote, and measures tau
on its held-out prompts, so that both trainers can be compared on one CPU: see README.md beside this file.

    $(tools/peer/setup.sh) tools/peer/train_tau.py --data DATA --target MODEL.gguf --mask-token-id 16 --minutes 10 --json OUT

Each document is a batch row of its own (SpecForge does not pack). Training has bf16 autocast over fp32 weights, fused
AdamW, and a cosine with warm-up. The number of steps is fixed early (after 20 steps and a tenth of the time), so that
training, extraction of hidden states included, fills the minutes.
"""

import argparse
import copy
import json
import math
import os
import random
import sys
import time

os.environ.setdefault("TQDM_DISABLE", "1")  # set before transformers is imported, so that it shows no bars

import gguf
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

import specforge_objective as sf
from decode import measure_tau

CALIBRATION_STEPS = 20
# llama.cpp takes tokens with these texts for an end of generation.
ENDERS = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>",
          "<EOT>", "<|end_of_text|>", "<eos>", "<turn|>", "<|fim_pad|>", "<|repo_name|>", "<reponame>", "<|file_sep|>"}


def say(text):
    print(text, file=sys.stderr, flush=True)


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = p.add_argument
    add("--data", required=True, help="folder that `draftsmith prepare` wrote")
    add("--target", required=True, help="GGUF file; dequantised to fp32")
    add("--layers", type=int, default=3)
    add("--block-size", type=int, default=8)
    add("--taps", default="", help="target layers, 0-based, with commas; default: SpecForge's spread, as many as --num-taps")
    add("--num-taps", type=int, default=0, help="default: as many as layers")
    add("--intermediate-size", type=int, default=0, help="default: the target's; so are the heads and their size")
    add("--heads", type=int, default=0)
    add("--kv-heads", type=int, default=0)
    add("--head-dim", type=int, default=0)
    add("--anchors", type=int, default=512, help="most anchors drawn in a document")
    add("--mask-token-id", type=int, required=True, help="the id that draftsmith printed")
    add("--max-length", type=int, default=1024, help="tokens of a document; longer ones are cut at the end")
    add("--documents-per-step", type=int, default=1, help="documents in one optimizer step, under one normaliser")
    add("--minutes", type=float, required=True, help="training, hidden-state extraction included; decoding is not counted")
    add("--learning-rate", type=float, default=6e-4, help="peak; default: SpecForge's recipe")
    add("--warmup", type=float, default=0.04, help="share of the steps")
    add("--clip", type=float, default=1.0)
    add("--gamma", type=float, default=0, help="decay of the slot weights; default: the recipe's 7, 5, 4 for blocks of 16, 10, 8")
    add("--objective-chunk", type=int, default=-1, help="blocks of logits at once, recomputed in the backward pass (SpecForge's "
        "default: 128); 0: all, nothing recomputed, a quarter faster here; default: 0 while the logits take at most 4 GB")
    add("--seed", type=int, default=1)
    add("--threads", type=int, default=os.cpu_count())
    add("--eval-prompts", type=int, default=40, help="held-out documents decoded, kinds in turn; 0: none")
    add("--max-new-tokens", type=int, default=128)
    add("--save", default="", help="folder for the drafter: z-lab's names, fp32")
    add("--json", required=True, help="file for the results")
    args = p.parse_args()
    if args.block_size < 2 or args.layers < 1 or args.anchors < 1 or args.minutes <= 0:
        p.error("--block-size must be at least 2; --layers, --anchors and --minutes positive")
    return args


# ---- data and target ------------------------------------------------------------------------------------------------
def read_documents(path, max_length):
    """Returns a list of {ids, mask, kind, kind_id}; documents are cut at max_length."""
    with safe_open(path, framework="pt") as f:
        missing = {"token_ids", "loss_mask", "document_offsets"} - set(f.keys())
        if missing:
            sys.exit(f"train_tau: {path}: tensor {sorted(missing)[0]!r} is missing; give a folder that `draftsmith prepare` wrote")
        ids, mask, offsets = (f.get_tensor(k) for k in ("token_ids", "loss_mask", "document_offsets"))
        kinds = f.get_tensor("kind").tolist() if "kind" in f.keys() else []
        metadata = f.metadata() or {}
    names = json.loads(metadata.get("kind_names", "[]"))
    documents = []
    for d in range(len(offsets) - 1):
        begin, end = offsets[d].item(), offsets[d + 1].item()
        kind_id = kinds[d] if kinds else 0
        end = min(end, begin + max_length)
        documents.append({"ids": ids[begin:end].long(), "mask": mask[begin:end].float(), "kind_id": kind_id,
                          "kind": names[kind_id] if kinds and kind_id < len(names) else ""})
    return documents


def has_anchor(document):
    return bool((document["mask"][:-1] * document["mask"][1:]).any())


def prompt_of(document):
    supervised = document["mask"].nonzero()
    return document["ids"][:supervised[0].item()].tolist() if len(supervised) else []


def choose_prompts(documents, wanted, longest):
    """Chooses the documents that `draftsmith eval` decodes: kinds take turns, and the chosen ones are in the file's
    order. Returns a list of (ids, kind)."""
    by_kind = {}
    for d, document in enumerate(documents):
        if 0 < len(prompt_of(document)) <= longest:
            by_kind.setdefault(document["kind_id"], []).append(d)
    turns = sorted((turn, kind, d) for kind, members in by_kind.items() for turn, d in enumerate(members))
    chosen = sorted(d for _, _, d in turns[:wanted])
    return [(prompt_of(documents[d]), documents[d]["kind"]) for d in chosen]


def end_ids_of(path):
    """Returns the end ids as llama.cpp has them: those that the file names, and tokens with a text in ENDERS."""
    reader = gguf.GGUFReader(path)
    ids = {int(reader.fields[k].contents()) for k in ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                                     "tokenizer.ggml.eom_token_id") if k in reader.fields}
    return ids | {i for i, token in enumerate(reader.fields["tokenizer.ggml.tokens"].contents()) if token in ENDERS}


def load_target(path):
    folder, name = os.path.split(os.path.abspath(path))
    target = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    return target.requires_grad_(False).eval()


def decay_gamma(block_size):
    """Returns the recipe's values at 8, 10 and 16, and values on the lines through them elsewhere."""
    return max(1.0, 4 + (block_size - 8) / 2 if block_size <= 10 else 5 + (block_size - 10) / 3)


class Features:
    """Holds the tapped hidden states of the training documents, which are made once and kept in bf16. The residual
    stream is fp32; the matrices are bf16, so that autocast need not convert them at every call."""

    def __init__(self, target, taps):
        self.model = copy.deepcopy(target.model)
        for module in self.model.modules():
            if isinstance(module, torch.nn.Linear):
                module.to(torch.bfloat16)
        self.taps, self.kept, self.seconds = taps, {}, 0.0

    @torch.no_grad()
    def of(self, d, document):
        if d not in self.kept:
            began = time.perf_counter()
            out = self.model(document["ids"].unsqueeze(0), use_cache=False, output_hidden_states=True)
            self.kept[d] = torch.cat([out.hidden_states[l + 1] for l in self.taps], dim=-1).bfloat16()
            self.seconds += time.perf_counter() - began
        return self.kept[d]


# ---- training -------------------------------------------------------------------------------------------------------
def shuffled(num_documents, seed):
    """Yields document numbers without end; every epoch holds each once."""
    rng = random.Random(seed)
    while True:
        order = list(range(num_documents))
        rng.shuffle(order)
        yield from order


def learning_rate_at(step, total, args):
    warmup = int(args.warmup * total)
    if step < warmup:
        return args.learning_rate * (step + 1) / warmup
    return args.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(total - warmup, 1)))


def fit_steps(done, elapsed, step_seconds, extraction_seconds, per_step, num_documents, budget):
    """Returns how many steps fill the budget; documents of the first epoch also cost their extraction."""
    left = max(num_documents - done * per_step, 0)
    first_epoch_step = step_seconds + per_step * extraction_seconds
    steps = (budget - elapsed) / first_epoch_step
    if steps * per_step > left:
        steps = (budget - elapsed - left * extraction_seconds) / step_seconds
    return done + max(int(round(steps)), 1)


def train(objective, features, documents, args):
    parameters = list(objective.draft_model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=args.learning_rate, weight_decay=0.0, fused=True)
    order = shuffled(len(documents), args.seed)
    budget = args.minutes * 60
    began = reported = time.perf_counter()
    total, fixed, step, tokens, history, second_began = 0, False, 0, 0, [], None
    while step < total or not fixed:
        # Before the first estimate any small rate will do, because warm-up comes first.
        lr = learning_rate_at(step, total, args) if total else args.learning_rate / CALIBRATION_STEPS
        optimizer.param_groups[0]["lr"] = lr
        denominator, loss_sum, correct, count = 0.0, 0.0, 0.0, 0.0
        for _ in range(args.documents_per_step):
            d = next(order)
            document = documents[d]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                context = features.of(d, document)
                _, _, metrics = objective(document["ids"].unsqueeze(0), context, document["mask"].unsqueeze(0))
            numerator, weight = metrics["loss_terms"]
            numerator.backward()
            loss_sum, denominator = loss_sum + numerator.item(), denominator + weight.item()
            correct, count = correct + metrics["ratio_metrics"]["acc"][0].item(), count + metrics["accuracy_denom"].item()
            tokens += len(document["ids"])
        for p in parameters:  # one normaliser over the whole step
            p.grad.div_(denominator)
        torch.nn.utils.clip_grad_norm_(parameters, args.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        now = time.perf_counter()
        history.append({"step": step, "seconds": now - began, "loss": loss_sum / denominator, "accuracy": correct / count,
                        "lr": lr})
        if not math.isfinite(loss_sum):
            sys.exit(f"train_tau: the loss is not finite at step {step}; lower --learning-rate")

        if step == 1:  # the first step also warms memory up
            second_began, extraction_before = now, features.seconds
        elif not fixed:
            extracted = features.seconds - extraction_before
            pace = (now - second_began - extracted) / (step - 1)
            total = fit_steps(step, now - began, pace, features.seconds / max(len(features.kept), 1), args.documents_per_step,
                              len(documents), budget)
            # Shapes that are new to the matrix library make the first steps slow, so a tenth of the time is measured.
            # Runs of a minute or so cannot spare 20 steps.
            share = (now - began) / budget
            fixed = share >= 0.1 and (step >= CALIBRATION_STEPS or share > 0.3)
            if fixed:
                say(f"train: {total} steps of {pace:.2f} s and {features.seconds / max(len(features.kept), 1):.2f} s "
                    f"to extract a document")
        if now - reported > 20:
            reported = now
            recent = history[-20:]
            say(f"train: step {step}/{total} loss {sum(h['loss'] for h in recent) / len(recent):.3f} accuracy "
                f"{sum(h['accuracy'] for h in recent) / len(recent):.3f} after {(now - began) / 60:.1f} min")
    tail = history[-max(len(history) // 20, 1):]
    seconds = history[-1]["seconds"]
    return {"steps": step, "seconds": seconds, "extraction_seconds": features.seconds, "tokens": tokens,
            "documents_seen": len(features.kept), "epochs": step * args.documents_per_step / len(documents),
            "seconds_per_step": (seconds - features.seconds) / step,
            "loss_last_twentieth": sum(h["loss"] for h in tail) / len(tail),
            "accuracy_last_twentieth": sum(h["accuracy"] for h in tail) / len(tail)}, history


@torch.no_grad()
def held_out(objective, target, taps, documents, seed):
    """Returns loss and accuracy on unseen documents, in fp32, with anchors drawn from the seed."""
    torch.manual_seed(seed)
    loss = weight = correct = count = 0.0
    for document in documents:
        hidden = target.model(document["ids"].unsqueeze(0), use_cache=False, output_hidden_states=True).hidden_states
        context = torch.cat([hidden[l + 1] for l in taps], dim=-1)
        _, _, metrics = objective(document["ids"].unsqueeze(0), context, document["mask"].unsqueeze(0))
        loss, weight = loss + metrics["loss_terms"][0].item(), weight + metrics["loss_terms"][1].item()
        correct += metrics["ratio_metrics"]["acc"][0].item()
        count += metrics["accuracy_denom"].item()
    return {"documents": len(documents), "loss": loss / weight if weight else None, "accuracy": correct / count if count else None}


def save_drafter(drafter, folder):
    os.makedirs(folder, exist_ok=True)
    save_file({k: v.contiguous() for k, v in drafter.state_dict().items()}, os.path.join(folder, "model.safetensors"))
    config = {**drafter.config.to_dict(), "architectures": ["DFlashDraftModel"], "dtype": "float32",
              "rope_theta": drafter.config.rope_parameters["rope_theta"]}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)


def main():
    args = parse_arguments()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    for file in (args.target, os.path.join(args.data, "train.safetensors"), os.path.join(args.data, "eval.safetensors")):
        if not os.path.isfile(file):
            sys.exit(f"train_tau: {file} does not exist; give a GGUF file and a folder that `draftsmith prepare` wrote")
    documents = [d for d in read_documents(os.path.join(args.data, "train.safetensors"), args.max_length) if has_anchor(d)]
    evaluation = os.path.join(args.data, "eval.safetensors")
    if not documents:
        sys.exit(f"train_tau: {args.data}: no training document has two supervised tokens in a row")

    target = load_target(args.target)
    t = target.config
    taps = ([int(x) for x in args.taps.split(",")] if args.taps
            else sf.default_taps(t.num_hidden_layers, args.num_taps or args.layers))
    if len(set(taps)) != len(taps) or not all(0 <= l <= t.num_hidden_layers - 2 for l in taps):
        sys.exit(f"train_tau: --taps must be different layers within 0..{t.num_hidden_layers - 2}")
    if not 0 <= args.mask_token_id < t.vocab_size:
        sys.exit(f"train_tau: --mask-token-id must lie within 0..{t.vocab_size - 1}")
    heads = args.heads or t.num_attention_heads
    gamma = args.gamma or decay_gamma(args.block_size)

    torch.manual_seed(args.seed)
    drafter = sf.DFlashDraftModel(sf.drafter_config(
        hidden=t.hidden_size, intermediate=args.intermediate_size or t.intermediate_size, layers=args.layers, heads=heads,
        kv_heads=args.kv_heads or t.num_key_value_heads, head_dim=args.head_dim or t.head_dim, vocab=t.vocab_size,
        block_size=args.block_size, mask_token_id=args.mask_token_id, taps=taps, num_target_layers=t.num_hidden_layers,
        rope_theta=t.rope_parameters["rope_theta"], eps=t.rms_norm_eps)).float()
    embedding, head = target.get_input_embeddings().weight, target.get_output_embeddings().weight

    if args.objective_chunk < 0:  # 12 bytes hold a bf16 logit, its fp32 softmax and the gradients of both
        args.objective_chunk = 0 if args.anchors * args.block_size * t.vocab_size * 12 <= 4e9 else 128

    def objective(head_type):
        return sf.OnlineDFlashModel(drafter, sf.frozen_head(head, head_type), sf.frozen_embedding(embedding),
                                    args.mask_token_id, block_size=args.block_size, attention_backend="sdpa",
                                    num_anchors=args.anchors, loss_decay_gamma=gamma,
                                    objective_chunk_blocks=args.objective_chunk)

    num_parameters = sum(p.numel() for p in drafter.parameters())
    say(f"train: {len(documents)} documents, drafter of {num_parameters / 1e6:.2f}M parameters, taps {taps}, gamma {gamma}, "
        f"{args.threads} threads")
    training, history = train(objective(torch.bfloat16), Features(target, taps), documents, args)
    drafter.eval()
    if args.save:
        save_drafter(drafter, args.save)

    began = time.perf_counter()
    result = {"trainer": "SpecForge objective (specforge 0.2.0) in PyTorch", "arguments": vars(args),
              "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
              "drafter": {"parameters": num_parameters, "taps": taps, "gamma": gamma}, "training": training}
    if args.eval_prompts > 0:
        unseen = [d for d in read_documents(evaluation, args.max_length) if has_anchor(d)][:args.eval_prompts]
        result["held_out"] = held_out(objective(torch.float32), target, taps, unseen, args.seed)
        prompts = choose_prompts(read_documents(evaluation, t.max_position_embeddings), args.eval_prompts,
                                 t.max_position_embeddings - args.max_new_tokens)
        result["decoding"] = measure_tau(target, drafter, prompts, args.max_new_tokens, end_ids_of(args.target),
                                         lambda done, n: done % 10 or say(f"decode: {done}/{n}"))
        result["evaluation_seconds"] = time.perf_counter() - began
    result["history"] = history
    with open(args.json + ".part", "w") as f:
        json.dump(result, f, indent=1)
    os.replace(args.json + ".part", args.json)
    report(result)


def report(result):
    t = result["training"]
    print(f"steps {t['steps']}  minutes {t['seconds'] / 60:.2f}  s/step {t['seconds_per_step']:.2f}  tokens {t['tokens']}  "
          f"epochs {t['epochs']:.2f}  loss {t['loss_last_twentieth']:.3f}  accuracy {t['accuracy_last_twentieth']:.3f}")
    if "decoding" not in result:
        return
    h, d = result["held_out"], result["decoding"]
    if h["loss"] is not None:
        print(f"held out: loss {h['loss']:.3f}  accuracy {h['accuracy']:.3f}  ({h['documents']} documents)")
    for kind, s in [("all", d), *d["per_kind"].items()]:
        print(f"{kind:16} tau {s['tau_over_steps']:.3f} over {s['steps']} steps, {s['tau_over_requests']:.3f} over "
              f"{s['requests']} requests ({s['cut_steps']} steps cut)  per slot "
              + " ".join(f"{a:.3f}" for a in s["acceptance_per_slot"]))


if __name__ == "__main__":
    main()
