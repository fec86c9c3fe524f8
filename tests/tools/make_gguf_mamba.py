#!/usr/bin/env python3
"""Writes a tiny random recurrent model (architecture mamba) as GGUF: a target whose memory cannot be cut back.

    PYTHONPATH=.deps/llama.cpp/gguf-py .deps/python/bin/python tests/tools/make_gguf_mamba.py OUT.gguf
"""

import pathlib
import sys

import gguf
import numpy as np
from make_gguf_twin import add_vocabulary

LAYERS, HIDDEN, STATE, RANK, CONV, VOCAB = 4, 32, 8, 2, 4, 67


def main():
    rng = np.random.default_rng(0)
    inner = 2 * HIDDEN
    writer = gguf.GGUFWriter(pathlib.Path(sys.argv[1]), "mamba")
    writer.add_name("tiny mamba")
    writer.add_context_length(4096)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(LAYERS)
    writer.add_ssm_conv_kernel(CONV)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(STATE)
    writer.add_ssm_time_step_rank(RANK)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_ssm_dt_b_c_rms(False)
    add_vocabulary(writer, {"vocab_size": VOCAB})

    def add(name, *shape, scale=None):
        scale = shape[-1] ** -0.5 if scale is None else scale
        writer.add_tensor(name, (scale * rng.standard_normal(shape)).astype("<f4"))

    add("token_embd.weight", VOCAB, HIDDEN, scale=1.0)
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, "<f4"))
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        writer.add_tensor(block + "attn_norm.weight", np.ones(HIDDEN, "<f4"))
        add(block + "ssm_in.weight", 2 * inner, HIDDEN)
        add(block + "ssm_conv1d.weight", inner, CONV)
        add(block + "ssm_conv1d.bias", inner, scale=0.1)
        add(block + "ssm_x.weight", RANK + 2 * STATE, inner)
        add(block + "ssm_dt.weight", inner, RANK)
        add(block + "ssm_dt.bias", inner, scale=0.1)
        writer.add_tensor(block + "ssm_a", -np.tile(np.arange(1, STATE + 1, dtype="<f4"), (inner, 1)))
        writer.add_tensor(block + "ssm_d", np.ones(inner, "<f4"))
        add(block + "ssm_out.weight", HIDDEN, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
