// Starts a drafter from the target itself: the target's last layers become the drafter's layers.
#pragma once

#include <ATen/core/Tensor.h>

#include "draftsmith/draft/dflash/params.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/model/layer_names.h"

namespace draftsmith {

// Drafter layer i gets the attention and MLP matrices and the norm scales of target layer T - L + i, its input norm's
// folded into q, k and v, so that context and block are read as the target reads a state; `norm` is the target's final
// norm. fc passes the last tap through. q_norm and k_norm are the target's own; where it has none, they are one number,
// the size that its queries and keys have for a normalised input of no preferred direction. UserError naming the tensor
// when the target does not have it or its shape is not the drafter's.
void init_from_target(DFlashParams& params, const DrafterConfig& config, const TargetWeightFn& target_weight);

// Scales the final norm so that the logits of a random start have a variance of 1. With a norm of 1 they would have
// that of the head's rows, which for SmolLM2 is near 100 and gives a loss of 47, where guessing gives 11. The norm is
// never raised above 1. head [V, H].
void fit_final_norm(DFlashParams& params, const at::Tensor& head);

}  // namespace draftsmith
