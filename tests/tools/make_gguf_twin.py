#!/usr/bin/env python3
"""Writes a small Hugging Face folder (model_type llama or qwen3, one safetensors file) as an F32 GGUF with the same numbers.

    PYTHONPATH=.deps/llama.cpp/gguf-py .deps/python/bin/python tests/tools/make_gguf_twin.py FOLDER OUT.gguf

llama files keep q and k rows as llama.cpp's rotation of neighbours wants them, and llama3 RoPE scaling as a tensor of factors;
qwen3 files keep the rows as they are. The folder has no tokenizer: the vocabulary is made up (one character a token, a few
control tokens), with exactly vocab_size entries. Needs numpy and llama.cpp's gguf package.
"""

import argparse
import json
import math
import pathlib
import struct

import gguf
import numpy as np

DTYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def read_safetensors(path):
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    data = raw[8 + size :]
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]])
        if entry["dtype"] == "BF16":
            values = (values.astype("<u4") << 16).view("<f4")
        yield name, values.astype("<f4").reshape(entry["shape"])


def halves_to_neighbours(rows, head_dim):
    """Row i of a head's first half and row i of its second become neighbours."""
    heads = rows.reshape(rows.shape[0] // head_dim, 2, head_dim // 2, -1)
    return np.ascontiguousarray(heads.swapaxes(1, 2)).reshape(rows.shape)


def llama3_factors(rope, head_dim):
    """Returns how much each frequency of the RoPE is slowed down (by the published llama3 rule)."""
    original = rope["original_max_position_embeddings"]
    longest, shortest = original / rope["low_freq_factor"], original / rope["high_freq_factor"]
    factors = []
    for i in range(0, head_dim, 2):
        wave = 2 * math.pi * rope["rope_theta"] ** (i / head_dim)
        if wave < shortest:
            factors.append(1.0)
        elif wave > longest:
            factors.append(rope["factor"])
        else:
            smooth = (original / wave - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
            factors.append(1.0 / ((1.0 - smooth) / rope["factor"] + smooth))
    return np.array(factors, "<f4")


def add_vocabulary(writer, config):
    """Writes a vocabulary: pad, bos, end and mask are control tokens; then come printable characters, one pair that a
    merge makes, and made-up words."""
    size = config["vocab_size"]
    bos, end = config.get("bos_token_id"), config.get("eos_token_id")
    bos, end = 1 if bos is None else bos, 2 if end is None else end
    control = {0: "<pad>", bos: "<bos>", end: "<end>", size - 1: "<mask>"}
    texts = [chr(c) for c in range(33, 127)]
    texts.insert(1, "!!")
    texts += [f"<{i}>" for i in range(size)]
    rest = iter(texts)
    tokens = [control[i] if i in control else next(rest) for i in range(size)]
    types = [gguf.TokenType.CONTROL if i in control else gguf.TokenType.NORMAL for i in range(size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(["! !"])
    writer.add_bos_token_id(bos)
    writer.add_eos_token_id(end)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(False)


def gguf_name(name):
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in whole:
        return whole[name]
    _, _, layer, *middle, kind = name.split(".")
    return f"blk.{layer}.{LAYER_NAMES['.'.join(middle)]}.{kind}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()

    config = json.loads((arguments.folder / "config.json").read_text())
    arch = config["model_type"]
    if arch not in ("llama", "qwen3"):
        raise SystemExit(f"{arguments.folder}: model_type {arch} is neither llama nor qwen3")
    head_dim = config["head_dim"]
    rope = config["rope_parameters"]

    writer = gguf.GGUFWriter(arguments.out, arch)
    writer.add_name(f"{arguments.folder.name} twin")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    if arch == "llama":
        writer.add_vocab_size(config["vocab_size"])
        writer.add_rope_dimension_count(head_dim)
    add_vocabulary(writer, config)

    for name, values in read_safetensors(arguments.folder / "model.safetensors"):
        if arch == "llama" and name.endswith((".q_proj.weight", ".k_proj.weight")):
            values = halves_to_neighbours(values, head_dim)
        if not (name == "lm_head.weight" and config["tie_word_embeddings"]):
            writer.add_tensor(gguf_name(name), values)
    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(rope, head_dim))

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
