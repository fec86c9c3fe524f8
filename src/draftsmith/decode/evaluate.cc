#include "draftsmith/decode/evaluate.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/drafter_folder.h"

namespace draftsmith {
namespace {

constexpr double kLargestNoise = 0.5;  // with more noise the two passes no longer compute the same model
constexpr double kTieShare = 0.01;     // of the requests

// The logits of one request's plain decoding, for the comparison with the passes of decoding with the drafter.
class PlainLogits {
 public:
  PlainLogits(std::int64_t vocab_size, std::int64_t bytes)
      : vocab_size_(vocab_size), max_rows_(bytes / (vocab_size * static_cast<std::int64_t>(sizeof(float)))) {}

  void clear() {
    rows_.clear();
    margins_.clear();
  }
  // One token's pass.
  void add(const at::Tensor& logits) {
    const float* row = logits.const_data_ptr<float>();
    float best = row[0], second = -INFINITY;
    for (std::int64_t i = 1; i < vocab_size_; ++i) {
      if (row[i] > second) second = row[i];
      if (second > best) std::swap(best, second);
    }
    margins_.push_back(best - second);
    if (static_cast<std::int64_t>(margins_.size()) <= max_rows_) rows_.insert(rows_.end(), row, row + vocab_size_);
  }
  const std::vector<float>& margins() const { return margins_; }
  bool has_row(std::int64_t token) const {
    return (token + 1) * vocab_size_ <= static_cast<std::int64_t>(rows_.size());
  }
  double largest_difference(std::int64_t token, const float* row) const {
    const float* ours = rows_.data() + token * vocab_size_;
    float largest = 0;
    for (std::int64_t i = 0; i < vocab_size_; ++i) largest = std::max(largest, std::fabs(ours[i] - row[i]));
    return largest;
  }

 private:
  std::int64_t vocab_size_, max_rows_;
  std::vector<float> rows_;
  std::vector<float> margins_;
};

// Compares one request's block passes with its plain passes as long as both have the same tokens before them.
class Comparer {
 public:
  Comparer(const PlainLogits& plain, RequestReport& report) : plain_(plain), report_(report) {}

  void on_logits(std::int64_t first, const at::Tensor& logits) {
    const at::Tensor rows = logits.contiguous();
    const std::vector<std::int32_t> choices = greedy_choices(rows);
    for (std::int64_t i = 0; i < rows.size(0) && report_.first_difference < 0; ++i) {
      const std::int64_t token = first + i;
      if (token >= static_cast<std::int64_t>(report_.plain.tokens.size())) return;
      if (plain_.has_row(token)) {
        ++num_compared;
        const float* row = rows.const_data_ptr<float>() + i * rows.size(1);
        report_.noise = std::max(report_.noise, plain_.largest_difference(token, row));
      }
      if (choices[i] != report_.plain.tokens[token]) {
        report_.first_difference = token;
        report_.margin = report_.plain_margins[token];
      }
    }
  }
  std::int64_t num_compared = 0;

 private:
  const PlainLogits& plain_;
  RequestReport& report_;
};

void add_to(EvalGroup& group, const RequestReport& request) {
  group.acceptance.add_request(request.drafted.steps);
  group.plain_tokens += static_cast<std::int64_t>(request.plain.tokens.size()) - 1;
  group.plain_seconds += request.plain.decode_seconds;
  group.drafted_tokens += static_cast<std::int64_t>(request.drafted.tokens.size()) - 1;
  group.drafted_seconds += request.drafted.decode_seconds;
}

// Judges all requests at the end, since the noise of the whole run decides.
void judge(EvalReport& report) {
  for (const RequestReport& request : report.requests) report.noise = std::max(report.noise, request.noise);
  for (RequestReport& request : report.requests) {
    if (request.first_difference < 0) continue;
    const bool tie = report.noise <= kLargestNoise && request.margin <= 2 * report.noise;
    request.comparison = tie ? Comparison::kTie : Comparison::kFailure;
    ++(tie ? report.num_ties : report.num_failures);
  }
}

std::string progress_detail(const EvalGroup& all) {
  return fmt::format("tau {:.3g}  plain {:.3g} tokens/s  drafted {:.3g} tokens/s", all.acceptance.tau_over_steps(),
                     all.plain_tokens_per_second(), all.drafted_tokens_per_second());
}

}  // namespace

bool EvalReport::lossless() const {
  return num_failures == 0 && static_cast<double>(num_ties) <= kTieShare * static_cast<double>(requests.size());
}

std::vector<std::int64_t> choose_prompts(const DataSet& eval, const TargetInfo& target, const EvalOptions& options,
                                         std::int64_t* num_skipped) {
  std::map<std::int64_t, std::vector<std::int64_t>> by_kind;
  *num_skipped = 0;
  for (std::int64_t d = 0; d < eval.num_documents(); ++d) {
    const std::int64_t prompt = eval.prompt_length(d);
    const bool fits = options.max_new_tokens <= target.context_length - prompt;
    if (prompt < 1 || prompt >= eval.length(d) || !fits) {
      ++*num_skipped;
    } else {
      by_kind[eval.kind.empty() ? 0 : eval.kind[d]].push_back(d);
    }
  }
  std::vector<std::int64_t> chosen;
  const auto wanted = [&] {
    return options.prompts == 0 || static_cast<std::int64_t>(chosen.size()) < options.prompts;
  };
  bool any = true;
  for (std::size_t turn = 0; any && wanted(); ++turn) {
    any = false;
    for (const auto& [kind, documents] : by_kind) {
      if (turn >= documents.size() || !wanted()) continue;
      chosen.push_back(documents[turn]);
      any = true;
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

EvalReport evaluate(Target& target, const LoadedDrafter& drafter, const DataSet& eval, const EvalOptions& options,
                    const ProgressFn& progress) {
  const TargetInfo& info = target.info();
  EvalReport report{
      .target = info.name, .block_size = drafter.config().block_size, .max_new_tokens = options.max_new_tokens};
  const std::vector<std::int64_t> documents = choose_prompts(eval, info, options, &report.num_skipped);
  require(!documents.empty(), "no held-out document has a prompt and an answer and fits the target's context of ",
          info.context_length, " tokens; lower --max-new-tokens, or prepare data with --eval or --eval-count");
  std::map<std::string, EvalGroup> kinds;
  SpeculativeDecoder decoder(target, drafter, options.place);
  PlainLogits logits(info.vocab_size, options.logits_bytes);
  for (const std::int64_t d : documents) {
    RequestReport request{.document = d, .kind = eval.kind_of(d), .prompt_tokens = eval.prompt_length(d)};
    const auto prompt = eval.tokens_of(d).first(request.prompt_tokens);
    logits.clear();
    DecodeOptions decode{.max_new_tokens = options.max_new_tokens};
    decode.on_logits = [&](std::int64_t, const at::Tensor& row) { logits.add(row); };
    request.plain = decode_plain(target, prompt, decode);
    request.plain_margins = logits.margins();
    Comparer comparer(logits, request);
    decode.on_logits = [&](std::int64_t first, const at::Tensor& rows) { comparer.on_logits(first, rows); };
    request.drafted = decoder.decode(prompt, decode);
    report.num_compared_positions += comparer.num_compared;
    add_to(report.all, request);
    if (!request.kind.empty()) add_to(kinds[request.kind], request);
    report.requests.push_back(std::move(request));
    if (progress) {
      progress({.done = static_cast<std::int64_t>(report.requests.size()),
                .total = static_cast<std::int64_t>(documents.size()),
                .unit = "requests",
                .detail = progress_detail(report.all)});
    }
  }
  judge(report);
  for (const std::string& name : eval.kind_names) {
    if (const auto found = kinds.find(name); found != kinds.end()) {
      found->second.kind = name;
      report.kinds.push_back(found->second);
    }
  }
  return report;
}

}  // namespace draftsmith
