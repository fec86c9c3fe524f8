// The files of the llama.cpp engine share these parts. Other rooms see only target.h.
#pragma once

#include <memory>
#include <optional>

#include "draftsmith/target/llama/engine.h"
#include "draftsmith/target/llama/taps.h"
#include "draftsmith/target/llama/weights.h"
#include "draftsmith/target/target.h"

namespace draftsmith {

// Throws a UserError that names the file unless it describes a language model that may be given to llama.cpp.
void check_is_target(const GgufFile& file);

// Sessions share this part of a target, which lives as long as any of them.
struct LoadedModel {
  std::shared_ptr<llama_model> model;
  TargetInfo info;
  std::int64_t threads = 1;

  // Throws a UserError unless every id has an embedding row. `where` names the document or prompt.
  void check_tokens(std::span<const std::int32_t> tokens, const std::string& where) const;
};

std::unique_ptr<TargetSession> make_session(std::shared_ptr<const LoadedModel> loaded,
                                            std::span<const std::int64_t> taps, std::int64_t capacity);

std::vector<Target::Answer> generate_answers(
    const LoadedModel& loaded, std::span<const std::vector<std::int32_t>> prompts, const GenerateOptions& options,
    const std::function<void(std::int64_t index, const Target::Answer&)>& on_answer);

// Reads the features of one document after the other. It keeps its context between calls, because making one costs more
// than a short document.
class FeatureReader {
 public:
  explicit FeatureReader(std::shared_ptr<const LoadedModel> loaded) : loaded_(std::move(loaded)) {}
  DocumentFeatures read(std::span<const std::int32_t> document, std::span<const std::int64_t> taps,
                        bool want_final_state);

 private:
  void prepare(std::int64_t length, std::span<const std::int64_t> taps, bool want_final_state);
  // Runs `tokens`, which follow the first `position` tokens of the document, and writes their rows of `out`.
  void run(std::span<const std::int32_t> tokens, std::int64_t position, const DocumentFeatures& out);

  std::shared_ptr<const LoadedModel> loaded_;
  std::vector<std::int64_t> taps_;
  bool wants_final_state_ = false;
  std::int64_t num_cells_ = 0;
  std::unique_ptr<TapReader> reader_;  // declared before context_, which points into it
  ContextPtr context_;
};

}  // namespace draftsmith
