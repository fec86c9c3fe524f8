// Answers prompts by continuous batching. Each slot runs one sequence, with a cache of its own in one context. A slot
// that becomes free takes the next prompt, whose tokens go into the same batches as the single tokens of the others.
// Answer i depends on its prompt and (seed, i) only, up to the rounding that comes with other batch sizes.
#include <llama.h>

#include <algorithm>

#include "draftsmith/base/check.h"
#include "draftsmith/target/llama/gguf_target.h"
#include "draftsmith/target/llama/sampling.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kRunTokens = 512;

class Generator {
 public:
  Generator(const LoadedModel& loaded, std::span<const std::vector<std::int32_t>> prompts,
            const GenerateOptions& options, const std::function<void(std::int64_t, const Target::Answer&)>& on_answer)
      : loaded_(loaded), prompts_(prompts), options_(options), on_answer_(on_answer), answers_(prompts.size()) {
    const std::int64_t room = cells_per_sequence();
    const std::int64_t slots = std::min(options.parallel, static_cast<std::int64_t>(prompts.size()));
    slots_.resize(static_cast<std::size_t>(slots));
    context_ = make_context(*loaded.model, {.num_cells = room * slots,
                                            .num_sequences = slots,
                                            .batch_tokens = std::max(kRunTokens, slots),
                                            .batch_outputs = slots,
                                            .threads = loaded.threads,
                                            .shared_cache = false,
                                            .taps = nullptr});
  }

  std::vector<Target::Answer> run() {
    while (fill_batch()) {
      batch_.run(*context_);
      for (std::size_t s = 0; s < slots_.size(); ++s) {
        if (slots_[s].output_row >= 0) take_token(s);
      }
    }
    return std::move(answers_);
  }

 private:
  struct Slot {
    std::int64_t prompt = -1;      // index of the prompt, -1 = free
    std::int64_t num_run = 0;      // tokens in the cache
    std::int32_t next_token = -1;  // the token chosen last
    std::int64_t output_row = -1;  // row of this batch that holds this slot's logits
  };

  const std::vector<std::int32_t>& prompt_of(const Slot& slot) const {
    return prompts_[static_cast<std::size_t>(slot.prompt)];
  }

  std::int64_t cells_per_sequence() const {
    std::int64_t longest = 0;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      require(!prompts_[i].empty(), "prompt ", i, " is empty; the target needs at least one token to continue");
      loaded_.check_tokens(prompts_[i], text_of("prompt ", i));
      longest = std::max(longest, static_cast<std::int64_t>(prompts_[i].size()));
    }
    const std::int64_t total = longest + options_.max_new_tokens;
    require(total <= loaded_.info.context_length, "a prompt of ", longest, " tokens and ", options_.max_new_tokens,
            " new ones are more than the ", loaded_.info.context_length,
            " the target was trained for; ask for fewer new tokens");
    return cells_for(total);
  }

  // Adds one token of every running answer, then prompt tokens while there is room. Returns false when nothing is left.
  bool fill_batch() {
    batch_.clear();
    const std::int64_t limit = static_cast<std::int64_t>(llama_n_batch(context_.get()));
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      Slot& slot = slots_[s];
      slot.output_row = -1;
      if (slot.prompt < 0 || slot.num_run < static_cast<std::int64_t>(prompt_of(slot).size())) continue;
      slot.output_row = batch_.size();
      batch_.add(slot.next_token, slot.num_run++, static_cast<std::int64_t>(s), true);
    }
    for (std::size_t s = 0; s < slots_.size() && batch_.size() < limit; ++s) {
      Slot& slot = slots_[s];
      if (slot.prompt < 0) {
        if (next_prompt_ == prompts_.size()) continue;
        slot = {};
        slot.prompt = static_cast<std::int64_t>(next_prompt_++);
      }
      const std::vector<std::int32_t>& prompt = prompt_of(slot);
      const auto length = static_cast<std::int64_t>(prompt.size());
      while (slot.num_run < length && batch_.size() < limit) {
        const bool last = slot.num_run + 1 == length;
        if (last) slot.output_row = batch_.size();
        batch_.add(prompt[static_cast<std::size_t>(slot.num_run)], slot.num_run, static_cast<std::int64_t>(s), last);
        ++slot.num_run;
      }
    }
    return batch_.size() > 0;
  }

  void take_token(std::size_t s) {
    Slot& slot = slots_[s];
    Target::Answer& answer = answers_[static_cast<std::size_t>(slot.prompt)];
    const float* logits = llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(slot.output_row));
    DRAFTSMITH_ASSERT(logits != nullptr);
    Rng rng(options_.seed, RngPurpose::kSampling,
            {static_cast<std::uint64_t>(slot.prompt), static_cast<std::uint64_t>(answer.tokens.size())});
    slot.next_token =
        sample_token({logits, static_cast<std::size_t>(loaded_.info.vocab_size)},
                     {.temperature = options_.temperature, .top_k = options_.top_k, .top_p = options_.top_p}, rng);
    answer.tokens.push_back(slot.next_token);
    const std::vector<std::int32_t>& ends = loaded_.info.end_ids;
    answer.ended = std::binary_search(ends.begin(), ends.end(), slot.next_token);
    if (!answer.ended && static_cast<std::int64_t>(answer.tokens.size()) < options_.max_new_tokens) return;
    const std::int64_t finished = slot.prompt;
    forget_from(*context_, static_cast<std::int64_t>(s), 0);
    slot = {};
    if (on_answer_) on_answer_(finished, answer);
  }

  const LoadedModel& loaded_;
  std::span<const std::vector<std::int32_t>> prompts_;
  const GenerateOptions& options_;
  const std::function<void(std::int64_t, const Target::Answer&)>& on_answer_;
  std::vector<Target::Answer> answers_;
  std::vector<Slot> slots_;
  std::size_t next_prompt_ = 0;
  Batch batch_;
  ContextPtr context_;
};

}  // namespace

std::vector<Target::Answer> generate_answers(
    const LoadedModel& loaded, std::span<const std::vector<std::int32_t>> prompts, const GenerateOptions& options,
    const std::function<void(std::int64_t index, const Target::Answer&)>& on_answer) {
  check_sampling({.temperature = options.temperature, .top_k = options.top_k, .top_p = options.top_p});
  require(options.max_new_tokens >= 0, "the number of new tokens cannot be ", options.max_new_tokens);
  require(options.parallel >= 1 && options.parallel <= 128, "sequences at once must be 1 .. 128, not ",
          options.parallel);
  if (prompts.empty()) return {};
  if (options.max_new_tokens == 0) {
    std::vector<Target::Answer> answers(prompts.size());
    for (std::size_t i = 0; on_answer && i < answers.size(); ++i) on_answer(static_cast<std::int64_t>(i), answers[i]);
    return answers;
  }
  return Generator(loaded, prompts, options, on_answer).run();
}

}  // namespace draftsmith
