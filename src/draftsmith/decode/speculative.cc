#include "draftsmith/decode/speculative.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "draftsmith/base/check.h"
#include "draftsmith/base/stopwatch.h"
#include "draftsmith/draft/loss_rows.h"
#include "draftsmith/draft/target_fit.h"

namespace draftsmith {
namespace {

// Collects the new tokens of one request, stops at the limit or an end id, and reports them.
class Output {
 public:
  Output(const TargetInfo& target, const DecodeOptions& options, Stopwatch& watch)
      : options_(options), end_ids_(options.end_ids.value_or(target.end_ids)), watch_(watch) {}

  // Takes tokens up to the limit or the first end id; false when some were left over.
  bool commit(std::span<const std::int32_t> tokens) {
    std::int64_t kept = 0;
    const auto size = static_cast<std::int64_t>(tokens.size());
    while (kept < size && remaining() > 0 && !ended_) {
      result.tokens.push_back(tokens[kept]);
      ended_ = std::find(end_ids_.begin(), end_ids_.end(), tokens[kept]) != end_ids_.end();
      ++kept;
    }
    result.ended = ended_;
    if (options_.on_tokens && kept > 0) watch_.without([&] { options_.on_tokens(tokens.first(kept)); });
    return kept == size;
  }
  void show(const at::Tensor& logits) {
    const auto first = static_cast<std::int64_t>(result.tokens.size());
    if (options_.on_logits) watch_.without([&] { options_.on_logits(first, logits); });
  }
  std::int64_t remaining() const { return options_.max_new_tokens - static_cast<std::int64_t>(result.tokens.size()); }
  bool ended() const { return ended_; }

  DecodeResult result;

 private:
  const DecodeOptions& options_;
  std::vector<std::int32_t> end_ids_;
  Stopwatch& watch_;
  bool ended_ = false;
};

void check_request(const TargetInfo& target, std::span<const std::int32_t> prompt, const DecodeOptions& options) {
  require(!prompt.empty(), "a prompt needs at least one token");
  require(options.max_new_tokens >= 1, "max_new_tokens is ", options.max_new_tokens, "; it must be at least 1");
  for (const std::int32_t id : prompt) {
    require(id >= 0 && id < target.vocab_size, "the prompt holds token id ", id, ", but ", target.name,
            " has ids 0 to ", target.vocab_size - 1);
  }
  const auto length = static_cast<std::int64_t>(prompt.size());
  require(options.max_new_tokens <= target.context_length && length + options.max_new_tokens <= target.context_length,
          "a prompt of ", length, " tokens and ", options.max_new_tokens, " new ones do not fit the context of ",
          target.name, ", ", target.context_length, " tokens; ask for fewer");
}

}  // namespace

double DecodeResult::tokens_per_second() const {
  return tokens.size() > 1 && decode_seconds > 0 ? static_cast<double>(tokens.size() - 1) / decode_seconds : 0.0;
}

std::vector<std::int32_t> greedy_choices(const at::Tensor& logits) {
  const std::vector<std::int64_t> best = best_rows(logits);
  return {best.begin(), best.end()};
}

DecodeResult decode_plain(Target& target, std::span<const std::int32_t> prompt, const DecodeOptions& options) {
  const at::NoGradGuard no_grad;
  const TargetInfo& info = target.info();
  check_request(info, prompt, options);
  const auto session = target.session({}, static_cast<std::int64_t>(prompt.size()) + options.max_new_tokens);
  Stopwatch watch;
  Output out(info, options, watch);
  at::Tensor logits = session->prefill(prompt).logits;
  std::vector<std::int32_t> choice = greedy_choices(logits);
  out.show(logits);
  out.result.prefill_seconds = watch.lap();
  out.commit(choice);
  while (!out.ended() && out.remaining() > 0) {
    logits = session->extend(choice).logits;
    choice = greedy_choices(logits);
    out.show(logits);
    out.commit(choice);
  }
  out.result.decode_seconds = watch.lap();
  return std::move(out.result);
}

struct SpeculativeDecoder::State {
  Target& target;
  std::unique_ptr<const Drafter> drafter;  // matrices in the compute type, cast once for all requests
  Frozen frozen;

  // Does one step: the drafter proposes, the target checks the proposal in one pass, and the tokens that survive are
  // committed. Both caches end at the committed tokens.
  DecodeStep step(TargetSession& session, DraftSession& draft, Output& out, std::int64_t num_drafts) const;
};

SpeculativeDecoder::SpeculativeDecoder(Target& target, const LoadedDrafter& drafter, const Place& place) {
  const TargetInfo& info = target.info();
  require(info.can_rewind, info.name, " (", info.architecture,
          ") keeps a recurrent state that cannot be cut back to the accepted tokens, so it cannot be decoded with a"
          " drafter; decode without one");
  check_fits_target(drafter.config(), {.name = info.name,
                                       .hidden_size = info.hidden_size,
                                       .num_layers = info.num_layers,
                                       .vocab_size = info.vocab_size,
                                       .num_tokens = info.vocab_size});
  state_ = std::make_unique<State>(State{target, drafter.drafter->for_decoding(place),
                                         freeze(target.embedding(), target.head(), drafter.vocab, place)});
}
SpeculativeDecoder::~SpeculativeDecoder() = default;

DecodeStep SpeculativeDecoder::State::step(TargetSession& session, DraftSession& draft, Output& out,
                                           std::int64_t num_drafts) const {
  const std::int32_t anchor = out.result.tokens.back();
  std::vector<std::int32_t> drafts;
  if (num_drafts > 0) drafts = draft.propose(anchor, num_drafts);
  std::vector<std::int32_t> block{anchor};
  block.insert(block.end(), drafts.begin(), drafts.end());

  const std::int64_t begin = session.length();
  const TargetSession::Pass pass = session.extend(block);
  const std::vector<std::int32_t> choices = greedy_choices(pass.logits);
  const std::int64_t accepted = accepted_prefix(drafts, std::span(choices).first(drafts.size()));
  session.truncate(begin + 1 + accepted);
  draft.append(pass.features.narrow(0, 0, 1 + accepted));

  out.show(pass.logits.narrow(0, 0, 1 + accepted));
  // Accepted drafts equal the target's choices, so its first accepted + 1 choices are the new tokens.
  const bool whole = out.commit(std::span(choices).first(1 + accepted));
  return {.num_drafts = num_drafts, .num_accepted = accepted, .cut = !whole || num_drafts < drafter->max_drafts()};
}

DecodeResult SpeculativeDecoder::decode(std::span<const std::int32_t> prompt, const DecodeOptions& options) {
  const at::NoGradGuard no_grad;
  const State& s = *state_;
  const TargetInfo& info = s.target.info();
  check_request(info, prompt, options);
  const std::int64_t whole = s.drafter->max_drafts();
  const bool shorten = options.limit_rule == LimitRule::kShorten;
  const std::int64_t capacity =
      static_cast<std::int64_t>(prompt.size()) + options.max_new_tokens + (shorten ? 0 : whole + 1);
  const auto session = s.target.session(s.drafter->config().target_layer_ids, capacity);
  const auto draft = s.drafter->session(s.frozen, capacity);

  Stopwatch watch;
  Output out(info, options, watch);
  const TargetSession::Pass prompt_pass = session->prefill(prompt);
  draft->append(prompt_pass.features);
  const std::vector<std::int32_t> first = greedy_choices(prompt_pass.logits);
  out.show(prompt_pass.logits);
  out.result.prefill_seconds = watch.lap();
  out.commit(first);
  if (shorten) {
    while (!out.ended() && out.remaining() > 0) {
      out.result.steps.push_back(s.step(*session, *draft, out, std::min(whole, out.remaining() - 1)));
    }
  } else {
    for (std::int64_t produced = 0; !out.ended() && produced < options.max_new_tokens;) {
      out.result.steps.push_back(s.step(*session, *draft, out, whole));
      produced += out.result.steps.back().num_accepted + 1;
    }
  }
  out.result.decode_seconds = watch.lap();
  return std::move(out.result);
}

}  // namespace draftsmith
