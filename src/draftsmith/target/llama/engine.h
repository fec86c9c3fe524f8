// Wraps llama.cpp in a loaded model, a context and a batch of tokens. Nothing outside this folder sees them, and this
// header needs no llama.cpp header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

struct llama_model;
struct llama_context;

namespace draftsmith {

class TapReader;

struct ModelDeleter {
  void operator()(llama_model* model) const;
};
struct ContextDeleter {
  void operator()(llama_context* context) const;
};
using ContextPtr = std::unique_ptr<llama_context, ContextDeleter>;

// Loads a model on the CPU, with its weights mapped. Throws a UserError that names the file and gives llama.cpp's
// reason.
std::shared_ptr<llama_model> load_model(const std::filesystem::path& file);

// While one lives, long passes may use kernels that round unlike single passes (llama_switch/llama_switch.h).
struct QuickKernels {
  QuickKernels();
  ~QuickKernels();
  QuickKernels(const QuickKernels&) = delete;
  QuickKernels& operator=(const QuickKernels&) = delete;
};

// Writes `file` with its matrices in BF16 to `copy`, whole or not at all. Throws a UserError that names `copy`.
void write_bf16_copy(const std::filesystem::path& file, const std::filesystem::path& copy, std::int64_t threads);

// Returns the cells of a cache that holds `num_tokens` tokens; llama.cpp's cache comes in whole steps of 256.
constexpr std::int64_t cells_for(std::int64_t num_tokens) { return (num_tokens + 255) / 256 * 256; }

struct ContextOptions {
  std::int64_t num_cells = 0;  // tokens the cache holds, of all sequences together
  std::int64_t num_sequences = 1;
  std::int64_t batch_tokens = 512;  // most tokens of one run
  std::int64_t batch_outputs = 1;   // most tokens of one run whose logits (or final state) are wanted
  std::int64_t threads = 1;
  // With true, all sequences share one cache and rows keep the order of the batch. With false, each sequence has a
  // cache; this is faster, but the engine regroups the rows of a batch by sequence, so a TapReader cannot be used.
  bool shared_cache = true;
  TapReader* taps = nullptr;  // outlives the context
};
// Throws a UserError with the engine's reason.
ContextPtr make_context(llama_model& model, const ContextOptions& options);

// Holds the tokens to run in one call. It is filled, run, cleared and used again.
class Batch {
 public:
  void add(std::int32_t token, std::int64_t position, std::int64_t sequence, bool wants_output);
  void clear();
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  void run(llama_context& context);  // throws a UserError with the engine's reason

 private:
  std::vector<std::int32_t> tokens_, positions_, num_sequences_, sequences_;
  std::vector<std::int8_t> outputs_;
};

// Forgets the tokens of a sequence from `position` on. Returns false when this kind of memory cannot.
bool forget_from(llama_context& context, std::int64_t sequence, std::int64_t position);
void forget_all(llama_context& context);

}  // namespace draftsmith
