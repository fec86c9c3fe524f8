"""Shows that specforge_objective.py gives SpecForge's objective as the golden files hold it.

    python tools/peer/check_golden.py tests/golden/single_document [--attention eager]

The anchors are given; SpecForge's own code makes mask, labels, weights, loss and gradients. Prints the largest relative
differences, in fp32 on a CPU, and exits with 1 if one is not below 1e-5 (loss), 1e-6 (accuracy) or 1e-4 (gradients).
"""

import argparse
import json
import sys

import torch
from safetensors.torch import load_file

import specforge_objective as sf


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stem", help="golden file without its ending; one document, full layers")
    parser.add_argument("--attention", default="sdpa", choices=("sdpa", "eager"))
    parser.add_argument("--objective-chunk", type=int, default=128)
    args = parser.parse_args()
    shape = json.load(open(args.stem + ".json"))
    if len(shape["document_lengths"]) != 1 or shape["padding"]:
        sys.exit("check_golden: SpecForge does not pack documents; give a golden file with one document and no padding")
    golden = load_file(args.stem + ".safetensors")
    torch.set_num_threads(1)

    config = sf.drafter_config(
        hidden=shape["hidden_size"], intermediate=shape["intermediate_size"], layers=shape["num_hidden_layers"],
        heads=shape["num_attention_heads"], kv_heads=shape["num_key_value_heads"], head_dim=shape["head_dim"],
        vocab=shape["vocab_size"], block_size=shape["block_size"], mask_token_id=shape["mask_token_id"],
        taps=shape["target_layer_ids"], num_target_layers=shape["num_target_layers"], rope_theta=shape["rope_theta"],
        eps=shape["rms_norm_eps"], attention=args.attention, layer_types=shape["layer_types"],
        sliding_window=shape["sliding_window"])
    drafter = sf.DFlashDraftModel(config)
    drafter.load_state_dict({k[len("weights."):]: v for k, v in golden.items() if k.startswith("weights.")})
    model = sf.OnlineDFlashModel(
        drafter, sf.frozen_head(golden["input.lm_head"], torch.float32), sf.frozen_embedding(golden["input.embed_tokens"]),
        shape["mask_token_id"], block_size=shape["block_size"], attention_backend="sdpa",
        loss_decay_gamma=shape["loss_decay_gamma"], objective_chunk_blocks=args.objective_chunk)
    anchors = golden["input.anchors"].long().unsqueeze(0)
    model._sample_anchor_positions = lambda *_: (anchors, torch.ones_like(anchors, dtype=torch.bool))
    loss, accuracy, _ = model(golden["input.token_ids"].long().unsqueeze(0), golden["input.target_hidden"].unsqueeze(0),
                              golden["input.loss_mask"].float().unsqueeze(0))
    loss.backward()

    loss_error = abs(loss.item() / golden["expect.loss"].item() - 1)
    accuracy_error = abs(accuracy.item() - golden["expect.accuracy"].item())
    gradient_error = max(((p.grad - golden["expect.grad." + n]).abs().max() / golden["expect.grad." + n].abs().max()).item()
                         for n, p in drafter.named_parameters())
    print(json.dumps({"loss": loss.item(), "expected_loss": golden["expect.loss"].item(), "loss_error": loss_error,
                      "accuracy_error": accuracy_error, "gradient_error": gradient_error}))
    return 0 if loss_error < 1e-5 and accuracy_error < 1e-6 and gradient_error < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
