#include "draftsmith/spec/accept.h"

#include <algorithm>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

double ratio(double part, std::int64_t whole) { return whole > 0 ? part / static_cast<double>(whole) : 0.0; }

// Adds `more` element by element; the shorter one counts as if it went on with zeros.
void add_slots(std::vector<std::int64_t>& slots, const std::vector<std::int64_t>& more) {
  slots.resize(std::max(slots.size(), more.size()));
  for (std::size_t j = 0; j < more.size(); ++j) slots[j] += more[j];
}

}  // namespace

std::int64_t accepted_prefix(std::span<const std::int32_t> drafts, std::span<const std::int32_t> target_choices) {
  const std::size_t length = std::min(drafts.size(), target_choices.size());
  const auto differs =
      std::mismatch(drafts.begin(), drafts.begin() + static_cast<std::ptrdiff_t>(length), target_choices.begin());
  return differs.first - drafts.begin();
}

void AcceptanceStats::add_request(std::span<const DecodeStep> steps) {
  std::int64_t whole = 0, produced = 0;
  for (const DecodeStep& step : steps) {
    DRAFTSMITH_ASSERT(0 <= step.num_accepted && step.num_accepted <= step.num_drafts);
    if (step.cut) {
      ++cut_;
      continue;
    }
    ++whole;
    produced += step.num_accepted + 1;
    add_slots(offered_, std::vector<std::int64_t>(static_cast<std::size_t>(step.num_drafts), 1));
    add_slots(accepted_, std::vector<std::int64_t>(static_cast<std::size_t>(step.num_accepted), 1));
  }
  ++requests_;
  steps_ += whole;
  produced_ += produced;
  if (whole > 0) {
    ++requests_with_steps_;
    request_means_ += ratio(static_cast<double>(produced), whole);
  }
}

void AcceptanceStats::merge(const AcceptanceStats& other) {
  steps_ += other.steps_;
  cut_ += other.cut_;
  produced_ += other.produced_;
  requests_ += other.requests_;
  requests_with_steps_ += other.requests_with_steps_;
  request_means_ += other.request_means_;
  add_slots(offered_, std::vector<std::int64_t>(other.offered_));  // a copy: `other` may be this object
  add_slots(accepted_, std::vector<std::int64_t>(other.accepted_));
}

double AcceptanceStats::tau_over_steps() const { return ratio(static_cast<double>(produced_), steps_); }

double AcceptanceStats::tau_over_requests() const { return ratio(request_means_, requests_with_steps_); }

std::vector<double> AcceptanceStats::acceptance_per_slot() const {
  std::vector<double> out;
  for (std::size_t j = 0; j < offered_.size(); ++j) {
    out.push_back(ratio(j < accepted_.size() ? static_cast<double>(accepted_[j]) : 0.0, offered_[j]));
  }
  return out;
}

std::int64_t AcceptanceStats::num_steps() const { return steps_; }
std::int64_t AcceptanceStats::num_cut_steps() const { return cut_; }
std::int64_t AcceptanceStats::num_requests() const { return requests_; }

}  // namespace draftsmith
