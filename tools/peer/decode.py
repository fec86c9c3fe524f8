"""Decodes greedily with a DFlash drafter and a transformers target: drafts B-1 tokens, verifies them in one pass, keeps
the longest prefix that the target would have chosen itself, and adds the target's next token. Both caches hold
committed positions only.

A step that accepts n drafts produces n + 1 tokens. Steps cut by an end id are left out of every mean. So are all steps
so near the limit that a whole block would not fit, because otherwise only the short ones among them would count.
"""

from collections import defaultdict

import torch
from transformers import DynamicCache


class Acceptance:
    """Holds the sums behind tau and the acceptance of each slot."""

    def __init__(self, block_size):
        self.slots = block_size - 1
        self.steps = self.produced = self.cut = self.requests = 0
        self.request_means = []
        self.accepted_at = [0] * self.slots

    def add_request(self, steps):
        """`steps` is a list of (accepted, cut)."""
        whole = [accepted for accepted, cut in steps if not cut]
        self.requests += 1
        self.cut += len(steps) - len(whole)
        self.steps += len(whole)
        self.produced += sum(whole) + len(whole)
        if whole:
            self.request_means.append(sum(whole) / len(whole) + 1)
        for accepted in whole:
            for slot in range(accepted):
                self.accepted_at[slot] += 1

    def summary(self):
        mean = self.request_means
        return {"tau_over_steps": self.produced / self.steps if self.steps else 0.0,
                "tau_over_requests": sum(mean) / len(mean) if mean else 0.0,
                "acceptance_per_slot": [n / self.steps if self.steps else 0.0 for n in self.accepted_at],
                "steps": self.steps, "cut_steps": self.cut, "requests": self.requests}


@torch.inference_mode()
def decode(target, drafter, prompt, max_new_tokens, end_ids):
    """`prompt` is a list of ids. Returns the new ids and the steps, a list of (accepted, cut)."""
    block_size, mask_id, taps = drafter.block_size, drafter.mask_token_id, drafter.target_layer_ids
    target_cache, draft_cache = DynamicCache(), DynamicCache()

    def run_target(ids, first):
        positions = torch.arange(first, first + len(ids)).unsqueeze(0)
        out = target(torch.tensor([ids]), position_ids=positions, past_key_values=target_cache, use_cache=True,
                     output_hidden_states=True)
        # hidden_states[l + 1] is the output of layer l
        return out.logits[0].argmax(-1).tolist(), torch.cat([out.hidden_states[l + 1] for l in taps], dim=-1)

    choices, features = run_target(prompt, 0)
    new = [choices[-1]]
    steps = []
    while new[-1] not in end_ids and len(new) < max_new_tokens:
        start = len(prompt) + len(new) - 1  # position of the last known token, whose features are not known yet
        embedded = target.get_input_embeddings()(torch.tensor([[new[-1]] + [mask_id] * (block_size - 1)]))
        positions = torch.arange(draft_cache.get_seq_length(), start + block_size).unsqueeze(0)
        hidden = drafter(position_ids=positions, noise_embedding=embedded, target_hidden=features,
                         past_key_values=draft_cache, use_cache=True, is_causal=False)
        draft_cache.crop(start)
        drafts = target.get_output_embeddings()(hidden[:, 1:])[0].argmax(-1).tolist()

        choices, features = run_target([new[-1]] + drafts, start)
        accepted = 0
        while accepted < len(drafts) and drafts[accepted] == choices[accepted]:
            accepted += 1
        target_cache.crop(start + accepted + 1)
        features = features[:, :accepted + 1]

        near_limit = max_new_tokens - len(new) < block_size
        produced = drafts[:accepted] + [choices[accepted]]
        kept = produced[:max_new_tokens - len(new)]
        end = next((i for i, token in enumerate(kept) if token in end_ids), None)
        if end is not None:
            kept = kept[:end + 1]
        new += kept
        steps.append((accepted, near_limit or len(kept) < len(produced)))
    return new, steps


def measure_tau(target, drafter, prompts, max_new_tokens, end_ids, progress=lambda done, total: None):
    """`prompts` is a list of (ids, kind). Returns the figures over all prompts and for each kind."""
    overall, per_kind = Acceptance(drafter.block_size), defaultdict(lambda: Acceptance(drafter.block_size))
    num_tokens = 0
    for i, (ids, kind) in enumerate(prompts):
        new, steps = decode(target, drafter, ids, max_new_tokens, end_ids)
        num_tokens += len(new)
        overall.add_request(steps)
        if kind:
            per_kind[kind].add_request(steps)
        progress(i + 1, len(prompts))
    return {**overall.summary(), "new_tokens": num_tokens, "max_new_tokens": max_new_tokens, "end_ids": sorted(end_ids),
            "per_kind": {kind: stats.summary() for kind, stats in sorted(per_kind.items())}}
