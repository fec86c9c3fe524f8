"""Imports SpecForge's DFlash objective and drafter on their own.

The specforge package needs a GPU serving stack as soon as its __init__ files run. The two modules used here do not, so
the packages above them are put in place empty (with their real paths) and only those modules are executed, unchanged.
"""

import importlib
import importlib.util
import sys
import types

import torch
from transformers import Qwen3Config

_PACKAGES = ("specforge", "specforge.algorithms", "specforge.algorithms.common", "specforge.core", "specforge.modeling",
             "specforge.modeling.draft")


def _import_alone():
    spec = importlib.util.find_spec("specforge")  # finds the folder; runs nothing
    if spec is None:
        sys.exit("train_tau: the specforge wheel is not installed here; run tools/peer/setup.sh and use the Python it prints")
    root = list(spec.submodule_search_locations)[0]
    for name in _PACKAGES:
        package = types.ModuleType(name)
        package.__path__ = ["/".join([root, *name.split(".")[1:]])]
        sys.modules[name] = package
    return (importlib.import_module("specforge.algorithms.common.dflash_family_model"),
            importlib.import_module("specforge.modeling.draft.dflash"))


_family, _draft = _import_alone()
OnlineDFlashModel = _family.OnlineDFlashModel
DFlashDraftModel = _draft.DFlashDraftModel
default_taps = _draft.build_target_layer_ids


def drafter_config(*, hidden, intermediate, layers, heads, kv_heads, head_dim, vocab, block_size, mask_token_id, taps,
                   num_target_layers, rope_theta, eps, attention="sdpa", layer_types=None, sliding_window=None):
    """Returns the configuration object that SpecForge builds its drafter from."""
    config = Qwen3Config(
        hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, vocab_size=vocab, rms_norm_eps=eps, attention_bias=False,
        attention_dropout=0.0, max_position_embeddings=40960, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        layer_types=layer_types or ["full_attention"] * layers, use_sliding_window=sliding_window is not None,
        sliding_window=sliding_window)
    config.block_size = block_size
    config.num_target_layers = num_target_layers
    config.dflash_config = {"mask_token_id": mask_token_id, "target_layer_ids": list(taps), "block_size": block_size}
    config._attn_implementation = attention
    return config


def frozen_head(weight, dtype):
    """Returns the target's output matrix as a module, which SpecForge multiplies with in bf16."""
    head = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    head.weight = torch.nn.Parameter(weight.detach().to(dtype), requires_grad=False)
    return head


def frozen_embedding(weight):
    return torch.nn.Embedding.from_pretrained(weight.detach(), freeze=True)
