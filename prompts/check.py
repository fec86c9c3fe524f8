#!/usr/bin/env python3
"""Checks the project's prompt set: form, counts, and that no two prompts are near-duplicates.

Reads train.jsonl and eval.jsonl beside this file (or in the folder given as the only argument), prints the counts of
each kind, and ends with status 1 after naming every fault it found. Standard library only; takes a few seconds.

Laws:
  - a line is {"kind": KIND, "messages": [...]}; messages are an optional system message, then user and assistant in
    turns, the last one the user's; no text is empty or has blanks at its ends;
  - train has at least 1,560 prompts, eval exactly 200, and both are balanced over the kinds;
  - no two prompts, in either file, say the same thing apart from case and punctuation;
  - no opening of six words occurs more than three times over both files;
  - the Jaccard similarity of word 3-grams is below 0.6 between any two prompts of a file, and below 0.5 between
    an eval prompt and a train prompt.
"""

import collections
import json
import pathlib
import re
import sys

KINDS = ("question", "explanation", "list", "code", "arithmetic", "rewriting", "dialogue")
TRAIN_AT_LEAST = 1560
EVAL_EXACTLY = 200
OPENING_WORDS = 6
OPENING_AT_MOST = 3
SAME_FILE_BELOW = 0.6
ACROSS_BELOW = 0.5
MAX_SHOWN = 40

# Letters and digits in runs, other visible signs one by one: code and sums differ in their signs.
TOKEN = re.compile(r"\w+|[^\w\s]")
WORD = re.compile(r"[\w'\-./]*\w")


def form_fault(row):
    """What is wrong with the form of one line, or None."""
    if not isinstance(row, dict) or set(row) != {"kind", "messages"}:
        return 'a line must be {"kind": ..., "messages": [...]} and nothing else'
    if row["kind"] not in KINDS:
        return f"unknown kind {row['kind']!r}"
    messages = row["messages"]
    if not isinstance(messages, list) or not messages:
        return "messages must be a list that is not empty"
    for message in messages:
        if not isinstance(message, dict) or set(message) != {"role", "content"}:
            return "a message must have a role and a content and nothing else"
        content = message["content"]
        if not isinstance(content, str) or not content or content != content.strip():
            return "a content is empty or has blanks at its ends"
        if any(ord(c) < 32 and c != "\n" for c in content):
            return "a content has a control character"
    roles = [message["role"] for message in messages]
    turns = roles[1:] if roles[0] == "system" else roles
    if len(turns) % 2 == 0 or any(role != ("user", "assistant")[i % 2] for i, role in enumerate(turns)):
        return "turns must go user, assistant, ..., user after an optional system message"
    return None


def load(path, faults):
    """The well-formed prompts of a file as (place, kind, whole text, first user text)."""
    prompts = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        place = f"{path.name}:{number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            faults.append(f"{place}: not JSON: {error}")
            continue
        fault = form_fault(row)
        if fault:
            faults.append(f"{place}: {fault}")
            continue
        texts = [m["content"] for m in row["messages"]]
        first_user = next(m["content"] for m in row["messages"] if m["role"] == "user")
        prompts.append((place, row["kind"], "\n".join(texts), first_user))
    return prompts


def check_counts(name, prompts, faults):
    counts = collections.Counter(kind for _, kind, _, _ in prompts)
    print(f"{name}: {len(prompts)} prompts: " + ", ".join(f"{kind} {counts[kind]}" for kind in KINDS))
    # Balanced: no kind is more than a tenth (and one prompt) away from an even share.
    share = len(prompts) / len(KINDS)
    for kind in KINDS:
        if abs(counts[kind] - share) > 0.1 * share + 1:
            faults.append(f"{name}: {counts[kind]} prompts of kind {kind}, an even share is {share:.0f}")


def check_openings(prompts, faults):
    openings = collections.defaultdict(list)
    for place, _, _, first_user in prompts:
        openings[" ".join(WORD.findall(first_user.lower())[:OPENING_WORDS])].append(place)
    for opening, places in sorted(openings.items()):
        if len(places) > OPENING_AT_MOST:
            faults.append(f"{len(places)} prompts open with '{opening}': {', '.join(places)}")


def check_same(prompts, faults):
    seen = {}
    for place, _, text, _ in prompts:
        key = tuple(TOKEN.findall(text.lower()))
        words = tuple(t for t in key if t[0].isalnum())
        # Sums and code may differ in their signs only; any other text is the same when its words are.
        key = key if any(c in text for c in "+*/=<>^") else words
        if key in seen:
            faults.append(f"{place}: the same text as {seen[key]}")
        seen[key] = place


def grams(text):
    tokens = WORD.findall(text.lower())
    if len(tokens) < 3:
        return frozenset([tuple(tokens)])
    return frozenset(tuple(tokens[i : i + 3]) for i in range(len(tokens) - 2))


def check_near(prompts, faults):
    """Compares each prompt with the earlier ones that share a 3-gram; returns the largest similarities met."""
    holders = collections.defaultdict(list)
    sets = []
    largest = {False: 0.0, True: 0.0}  # by whether the pair lies in two files
    for index, (place, _, text, _) in enumerate(prompts):
        mine = grams(text)
        shared = collections.Counter(other for gram in mine for other in holders[gram])
        for other, common in shared.items():
            similarity = common / (len(mine) + len(sets[other]) - common)
            across = place.split(":")[0] != prompts[other][0].split(":")[0]
            largest[across] = max(largest[across], similarity)
            if similarity >= (ACROSS_BELOW if across else SAME_FILE_BELOW):
                faults.append(f"{place}: too near to {prompts[other][0]} ({similarity:.2f}): {text[:70]!r}")
        for gram in mine:
            holders[gram].append(index)
        sets.append(mine)
    return largest


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__)
    folder = folder if folder.is_dir() else folder.resolve().parent
    faults = []
    train = load(folder / "train.jsonl", faults)
    held_out = load(folder / "eval.jsonl", faults)
    check_counts("train", train, faults)
    check_counts("eval", held_out, faults)
    if len(train) < TRAIN_AT_LEAST:
        faults.append(f"train: {len(train)} prompts, at least {TRAIN_AT_LEAST} are wanted")
    if len(held_out) != EVAL_EXACTLY:
        faults.append(f"eval: {len(held_out)} prompts, exactly {EVAL_EXACTLY} are wanted")
    everything = train + held_out
    check_openings(everything, faults)
    check_same(everything, faults)
    largest = check_near(everything, faults)
    print(f"largest similarity: {largest[False]:.2f} within a file, {largest[True]:.2f} between eval and train")
    for fault in faults[:MAX_SHOWN]:
        print(fault)
    if faults:
        print(f"{len(faults)} faults")
        return 1
    print("all is well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
