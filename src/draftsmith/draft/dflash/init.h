// A start from the target itself: its own last layers as the drafter's layers.
#pragma once

#include <ATen/core/Tensor.h>

#include "draftsmith/draft/dflash/params.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/model/layer_names.h"

namespace draftsmith {

// Drafter layer i gets the attention and MLP matrices and the norm scales of target layer T - L + i, its input norm's
// folded into q, k and v, so that context and block are read as the target reads a state; `norm` is the target's final
// norm. fc passes the last tap through. q_norm and k_norm are the target's own, or else one number: the size its
// queries and keys have for a normalised input of no preferred direction. UserError naming the tensor when the target
// does not have it or its shape is not the drafter's.
void init_from_target(DFlashParams& params, const DrafterConfig& config, const TargetWeightFn& target_weight);

// Lets the logits of a random start have a variance of 1 (with norm 1 they have that of the head's rows, for SmolLM2
// near 100: a loss of 47 where guessing has 11). Never raises the norm above 1. head [V, H].
void fit_final_norm(DFlashParams& params, const at::Tensor& head);

}  // namespace draftsmith
