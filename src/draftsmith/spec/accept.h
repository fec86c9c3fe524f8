// Which drafted tokens survive, and the figures made of it: arithmetic on spans, no model.
// Conventions: a step that accepts n drafts produces n + 1 tokens. tau = tokens produced per step. Steps cut short by
// the token limit or an end id are counted apart and left out of every mean.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace draftsmith {

// Length of the longest prefix of `drafts` equal to the target's own choices.
std::int64_t accepted_prefix(std::span<const std::int32_t> drafts, std::span<const std::int32_t> target_choices);

struct DecodeStep {
  std::int64_t num_drafts = 0;
  std::int64_t num_accepted = 0;
  bool cut = false;  // by the limit or by an end id inside the step
};

class AcceptanceStats {
 public:
  // Steps of one request, in order.
  void add_request(std::span<const DecodeStep> steps);
  void merge(const AcceptanceStats& other);
  double tau_over_steps() const;     // mean over steps of accepted + 1; 0 when there are none
  double tau_over_requests() const;  // mean over requests of the request's mean (requests with at least one whole step)
  // Share of steps that offered a draft at slot j (1-based) and accepted it; index 0 = slot 1.
  std::vector<double> acceptance_per_slot() const;
  std::int64_t num_steps() const;
  std::int64_t num_cut_steps() const;
  std::int64_t num_requests() const;

 private:
  std::int64_t steps_ = 0, cut_ = 0, produced_ = 0, requests_ = 0;
  double request_means_ = 0;
  std::int64_t requests_with_steps_ = 0;
  std::vector<std::int64_t> offered_, accepted_;
};

}  // namespace draftsmith
