// Counts accepted drafts and makes figures of the counts; this needs no model. A step that accepts n drafts produces n
// + 1 tokens, and tau is the mean number of tokens that a step produces. Steps cut short by the token limit or an end
// id are counted apart and left out of every mean.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace draftsmith {

// Returns the length of the longest prefix of `drafts` that equals the target's own choices.
std::int64_t accepted_prefix(std::span<const std::int32_t> drafts, std::span<const std::int32_t> target_choices);

struct DecodeStep {
  std::int64_t num_drafts = 0;
  std::int64_t num_accepted = 0;
  bool cut = false;  // by the limit or by an end id inside the step
};

class AcceptanceStats {
 public:
  // Adds the steps of one request, in order.
  void add_request(std::span<const DecodeStep> steps);
  void merge(const AcceptanceStats& other);
  double tau_over_steps() const;     // mean over steps of accepted + 1; 0 when there are none
  double tau_over_requests() const;  // mean over requests of the request's mean (requests with at least one whole step)
  // Returns, for each slot (index 0 is slot 1), the share of the steps with a draft there that accepted it.
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
