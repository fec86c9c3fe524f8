// The contract of a family of drafters: parameters, an objective with gradients, decoding, and the cost of a step.
// Trainer, decoder, exports and benches know this contract only. S context tokens, A anchors, B block size, K taps, H
// hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "draftsmith/base/choices.h"
#include "draftsmith/base/rng.h"
#include "draftsmith/data/pack.h"
#include "draftsmith/draft/draft_vocab.h"
#include "draftsmith/draft/drafter_config.h"
#include "draftsmith/draft/gguf_description.h"
#include "draftsmith/draft/loss.h"
#include "draftsmith/model/layer_names.h"
#include "draftsmith/nn/param.h"
#include "draftsmith/nn/place.h"

namespace draftsmith {

// The tables that a drafter shares with its target and never changes, in the run's place and compute type.
struct Frozen {
  at::Tensor embedding;                 // [V, H]
  at::Tensor head;                      // [V_draft, H]: the target's rows of the drafter's vocabulary
  DraftVocab vocab = {};                // whole unless the head is smaller than the target's
  std::vector<std::int32_t> head_rows;  // row of each target id in `head`, -1 for ids without a row; empty when whole
};
// Makes the tables from a target's [V, H] for a drafter's vocabulary. They stay one tensor where the head is the
// embedding and the vocabulary is whole.
Frozen freeze(const at::Tensor& embedding, const at::Tensor& head, const DraftVocab& vocab, const Place& place);

// One pack with its anchors, and the hidden states that the target computed for it.
struct Batch {
  const Pack& pack;
  std::span<const std::int64_t> anchors;  // positions in the pack
  at::Tensor taps;                        // [S, K*H], any float type
  at::Tensor final_state = {};            // [S, H] after the target's final norm; needed for soft labels only
};

struct PassTimes {
  double forward_seconds = 0, head_seconds = 0, backward_seconds = 0;
};
// Named tensors that an objective computes on its way, for those who compare them with other implementations.
using Trace = std::vector<std::pair<std::string, at::Tensor>>;

struct ObjectiveOptions {
  LossOptions loss = {};
  bool recompute = false;  // keep only a layer's inputs and recompute it in the backward pass: less memory, more work
  PassTimes* times = nullptr;  // when set, the times of the pass are added to it
  Trace* trace = nullptr;      // when set, it gets the family's intermediate tensors
};

// One sequence while it is decoded.
class DraftSession {
 public:
  virtual ~DraftSession() = default;
  virtual std::int64_t length() const = 0;  // number of committed positions whose taps were added
  // Adds the taps [n, K*H] of the next n committed positions.
  virtual void append(const at::Tensor& taps) = 0;
  // Drafts the block whose anchor is `anchor_token` at position length(). Returns num_drafts target ids, 1 <=
  // num_drafts <= Drafter::max_drafts().
  virtual std::vector<std::int32_t> propose(std::int32_t anchor_token, std::int64_t num_drafts) = 0;
};

// Floating point operations of a step's products, forward and backward, however they are carried out.
struct StepFlops {
  double projections = 0, attention = 0, mlp = 0, head = 0;
  double total() const { return projections + attention + mlp + head; }
};

struct StepSize {
  std::int64_t context = 0;  // S tokens of the pack
  std::int64_t anchors = 0;
  bool recompute = false;
  bool soft_labels = false;
  bool gradients_held = false;  // gradients of the step's packs before this one exist already
  std::int64_t logits_bytes = 0;
};

// Gives the value of a parameter, with that shape and in a type that suits its role.
using ParamSource = std::function<at::Tensor(const std::string& name, const at::Tensor& shape, Role role)>;
// Gives a target's tensor, fp32 or bf16 [out, in], with q and k rows in rotate-half order; undefined when the target
// has none.
using TargetWeightFn = std::function<at::Tensor(const DecoderWeight& weight)>;

class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual const DrafterConfig& config() const = 0;
  virtual const Place& place() const = 0;
  // All trainable tensors, always in the same order; the list shares their memory.
  virtual ParamList params() const = 0;

  // Sums of the weighted loss and of its figures over one batch. Under gradients, d loss_sum / d parameter is added to
  // the gradient of every parameter (and of batch.taps where it asks for one). The optimizer divides by the weight sum
  // of all batches of the step.
  virtual LossSums objective(const Frozen& frozen, const Batch& batch, const ObjectiveOptions& options) = 0;

  // The same drafter with its matrices in the compute type of `place` and without gradients, for sessions.
  virtual std::unique_ptr<Drafter> for_decoding(const Place& place) const = 0;
  // Drafter and `frozen` outlive the session; `capacity` bounds the committed positions. Matrices must be in the
  // compute type (for_decoding).
  virtual std::unique_ptr<DraftSession> session(const Frozen& frozen, std::int64_t capacity) const = 0;
  virtual std::int64_t max_drafts() const = 0;  // of one block

  // Set the first weights: random numbers, scaled so that the logits over `head` have unit variance at most, or the
  // target's own layers.
  virtual void start_random(Rng& rng, const at::Tensor& head) = 0;
  virtual void start_from_target(const TargetWeightFn& target_weight) = 0;

  // Says how llama.cpp's file of the drafter is written; UserError where llama.cpp cannot run it.
  virtual GgufDescription gguf() const = 0;

  virtual StepFlops step_flops(const Frozen& frozen, const Batch& batch) const = 0;
  // Peak bytes of one step, gradients included, without masters, moments and frozen tables. It is an estimate from the
  // sizes of tensors.
  virtual std::int64_t step_bytes(const StepSize& size) const = 0;
};

std::int64_t num_parameters(const Drafter& drafter);
// The parameter of that name, which must exist.
at::Tensor param_of(const Drafter& drafter, const std::string& name);

}  // namespace draftsmith
