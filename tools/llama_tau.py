#!/usr/bin/env python3
"""Has llama.cpp's own speculative decoder run an exported drafter, and says how many drafts it accepted.

Reads prompts as JSON lines, {"text": "...", "ids": [...]}. `text` is the whole rendered prompt with its special tokens
written out. `ids`, if given, are the ids that it must tokenize to (only their number can be checked). `plain`, if
given, are the ids that plain greedy decoding makes of it, and `margins` the difference of the two best logits at each.
With --aligned, `first`, the text of the first new token, is added to the prompt. llama.cpp's first step then starts
where ours does, each of its steps is one of ours, and the first counts as well. Prints one JSON object:

  tau                 tokens per step, pooled over steps. Two kinds of steps are left out: the first of a request (it
                      starts at the last prompt token, which other decoders count as part of the prompt), and steps
                      that the limit or an end id cut
  tokens_per_second   decoding only, over all requests
  text                if prompts have `plain`: how many requests are equal, ties and failures. A first difference is a
                      tie when the margin there is within 2 x noise and noise <= 0.5 (--noise, as `draftsmith eval`
                      measured it)
  requests            for each prompt: its number of tokens, the new tokens' ids (end id included), and steps
                      {drafts, accepted, cut, first, draft_ids}

Decoding is greedy. Example:
  tools/llama_tau.py --target model.gguf --drafter drafter.gguf --draft-max 7 --prompts prompts.jsonl --max-new-tokens 128
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

DRAFT = re.compile(r"draft candidate\s+0, pos\s+(\d+):\s+(\d+) ")
STEP = re.compile(r"accepted (\d+)/(\d+) draft tokens, the last target token is: \((\d+)\)")
END_ID = re.compile(r"EOG token\s*=\s*(\d+)")
ENCODED = re.compile(r"encoded\s+(\d+) tokens in")
COUNTS = re.compile(r"n_(predict|accept)\s*=\s*(\d+)")
DECODED = re.compile(r"decoded\s+(\d+) tokens in\s+([0-9.]+) seconds")


TRIES = 4  # llama.cpp's log writes from a queue that can lose lines on a busy machine


class Failure(Exception):
    pass


class LinesLost(Failure):
    pass


def parse_log(log, draft_max, max_new_tokens):
    """Reads one request from the decoder's debug log."""
    end_ids = {int(m.group(1)) for m in END_ID.finditer(log)}
    encoded, decoded = ENCODED.search(log), DECODED.search(log)
    if not encoded or not decoded:
        raise LinesLost("the decoder's log has no line with the number of encoded and decoded tokens")
    counts = {m.group(1): int(m.group(2)) for m in COUNTS.finditer(log)}
    accepted_in_all = [int(m.group(1)) for m in STEP.finditer(log)]
    if counts.get("accept") != sum(accepted_in_all) or counts.get("predict") != sum(accepted_in_all) + len(accepted_in_all):
        raise LinesLost("the number of steps in the decoder's log is not the number that it counts")
    tokens, steps, drafts, ended = [], [], [], False
    for line in log.splitlines():
        if m := DRAFT.search(line):
            if int(m.group(1)) == 0:
                drafts = []
            drafts.append(int(m.group(2)))
        elif (m := STEP.search(line)) and not ended and len(tokens) < max_new_tokens:
            accepted, offered, last = (int(x) for x in m.groups())
            new = drafts[:accepted]
            if len(new) != accepted:
                raise LinesLost(f"the log shows {len(new)} drafts where {accepted} were accepted")
            end_at = next((i for i, t in enumerate(new) if t in end_ids), None)
            cut = end_at is not None or len(tokens) + draft_max + 1 > max_new_tokens
            new = new + [last] if end_at is None else new[: end_at + 1]
            steps.append({"drafts": offered, "accepted": accepted, "cut": cut, "first": not steps, "draft_ids": drafts})
            tokens += new
            ended = new[-1] in end_ids
            drafts = []
    return {
        "prompt_tokens": int(encoded.group(1)),
        "tokens": tokens[:max_new_tokens],
        "ended": ended and len(tokens) <= max_new_tokens,
        "seconds": float(decoded.group(2)),
        "decoded_tokens": int(decoded.group(1)),
        "steps": steps,
    }


def run_one(args, prompt, folder):
    file = os.path.join(folder, "prompt.txt")
    with open(file, "w", encoding="utf-8", newline="") as f:
        f.write(prompt["text"] + "\n")  # the decoder drops one newline at the end
    command = [
        args.binary, "-m", args.target, "-md", args.drafter, "--spec-type", "draft-dflash",
        "--spec-draft-n-max", str(args.draft_max), "--spec-draft-n-min", "0", "--spec-draft-p-min", "0",
        "--temp", "0", "--samplers", "top_k", "--top-k", "1", "-n", str(args.max_new_tokens), "-c", str(args.context),
        "-f", file, "--no-escape", "-fa", args.flash_attention, "-ctk", args.cache_type, "-ctv", args.cache_type, "-ctkd", args.cache_type,
        "-ctvd", args.cache_type, "-lv", "5", "--log-colors", "off",
    ]  # fmt: skip
    if args.threads:
        command += ["-t", str(args.threads), "-tb", str(args.threads)]
    for left in reversed(range(TRIES)):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        log = done.stderr.decode("utf-8", "replace")
        if done.returncode != 0:
            tail = "\n".join(log.splitlines()[-15:])
            raise Failure(f"{args.binary} ended with {done.returncode}:\n{tail}")
        try:
            request = parse_log(log, args.draft_max, args.max_new_tokens)
            break
        except LinesLost:
            if not left:
                raise
    if "ids" in prompt and len(prompt["ids"]) != request["prompt_tokens"]:
        raise Failure(
            f"a prompt of {len(prompt['ids'])} tokens became {request['prompt_tokens']} in llama.cpp: {prompt['text'][:80]!r}"
        )
    return request


def compare(request, prompt, noise):
    """Says how the text differs from the plain one: equal, tie or failure."""
    pairs = list(zip(request["tokens"], prompt["plain"]))
    where = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if where is None:
        return "equal" if len(request["tokens"]) == len(prompt["plain"]) else "failure"
    margin = prompt["margins"][where] if "margins" in prompt else None
    request["first_difference"], request["margin"] = where, margin
    return "tie" if margin is not None and noise <= 0.5 and margin <= 2 * noise else "failure"


def aligned(prompt):
    """Returns the prompt with its first new token added, which leaves one less to decode."""
    shorter = {key: prompt[key][1:] for key in ("plain", "margins") if key in prompt}
    return {**prompt, **shorter, "text": prompt["text"] + prompt["first"], "ids": prompt["ids"] + prompt["plain"][:1]}


def summary(requests, count_first):
    whole = [s for r in requests for s in r["steps"] if not s["cut"] and (count_first or not s["first"])]
    seconds = sum(r["seconds"] for r in requests)
    return {
        "tau": sum(s["accepted"] + 1 for s in whole) / len(whole) if whole else None,
        "steps": len(whole),
        "left_out_steps": sum(len(r["steps"]) for r in requests) - len(whole),
        "tokens_per_second": sum(r["decoded_tokens"] for r in requests) / seconds if seconds > 0 else None,
        "requests": requests,
    }


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(here, "build/llama-speculative-simple"))
    parser.add_argument("--target", required=True)
    parser.add_argument("--drafter", required=True, help="GGUF that `draftsmith export --to gguf` wrote")
    parser.add_argument("--prompts", required=True, help="JSON lines with text and, optionally, ids")
    parser.add_argument("--draft-max", type=int, required=True, help="drafts per step: the block size less one")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--noise", type=float, default=0.0, help="noise of the target's logits between passes of one token and of many")
    parser.add_argument("--aligned", action="store_true", help="start each request at its second new token, as described above")
    parser.add_argument("--limit", type=int, default=0, help="read only this many prompts; 0 reads all")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--flash-attention", default="off", help="on | off | auto; off rounds alike in passes of one token and of many")
    parser.add_argument("--cache-type", default="f32", help="type of both models' keys and values; llama.cpp's default is f16")
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    try:
        with open(args.prompts, encoding="utf-8") as f:
            prompts = [json.loads(line) for line in f if line.strip()]
        prompts = prompts[: args.limit] if args.limit else prompts
        if not prompts:
            raise Failure(f"{args.prompts} holds no prompt")
        if args.aligned:
            prompts = [aligned(p) for p in prompts if len(p["plain"]) > 1]
            args.max_new_tokens -= 1
        requests = []
        with tempfile.TemporaryDirectory() as folder:
            for i, prompt in enumerate(prompts):
                requests.append(run_one(args, prompt, folder))
                print(f"{i + 1}/{len(prompts)} requests", file=sys.stderr)
    except (Failure, OSError, ValueError, KeyError) as error:
        print(f"llama_tau: {error}", file=sys.stderr)
        return 1
    result = summary(requests, args.aligned)
    compared = [compare(r, p, args.noise) for r, p in zip(requests, prompts) if "plain" in p]
    if compared:
        result["text"] = {word: compared.count(word) for word in ("equal", "tie", "failure")}
    json.dump(result, sys.stdout)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
