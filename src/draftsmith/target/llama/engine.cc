// Calls llama.cpp: loads models, makes contexts and runs batches.
#include "draftsmith/target/llama/engine.h"

#include <llama.h>

#include <algorithm>
#include <mutex>

#include "draftsmith/base/check.h"
#include "draftsmith/target/llama/taps.h"
#include "draftsmith/text/llama_log.h"
#include "llama_switch/llama_switch.h"

namespace draftsmith {
void ModelDeleter::operator()(llama_model* model) const { llama_model_free(model); }
void ContextDeleter::operator()(llama_context* context) const { llama_free(context); }

std::shared_ptr<llama_model> load_model(const std::filesystem::path& file) {
  static std::once_flag once;
  std::call_once(once, [] { llama_backend_init(); });
  watch_llama_log();
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  std::unique_ptr<llama_model, ModelDeleter> model(llama_model_load_from_file(file.c_str(), params));
  require(model != nullptr, file.string(), ": llama.cpp cannot load this model: ", llama_error());
  return model;
}

QuickKernels::QuickKernels() { llama_switch_quick_kernels(1); }
QuickKernels::~QuickKernels() { llama_switch_quick_kernels(0); }

void write_bf16_copy(const std::filesystem::path& file, const std::filesystem::path& copy, std::int64_t threads) {
  watch_llama_log();
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.ftype = LLAMA_FTYPE_MOSTLY_BF16;
  params.allow_requantize = true;
  params.nthread = static_cast<std::int32_t>(threads);
  const std::filesystem::path part = copy.string() + ".part";
  const bool done = llama_model_quantize(file.c_str(), part.c_str(), &params) == 0;
  if (!done) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    fail(copy.string(), ": the BF16 copy of ", file.string(), " could not be written: ", llama_error(),
         "; set model.feature_weights to native to do without it");
  }
  std::filesystem::rename(part, copy);
}

ContextPtr make_context(llama_model& model, const ContextOptions& options) {
  watch_llama_log();
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>(options.num_cells);
  params.n_seq_max = static_cast<std::uint32_t>(options.num_sequences);
  params.n_batch = static_cast<std::uint32_t>(options.batch_tokens);
  params.n_ubatch = static_cast<std::uint32_t>(std::min<std::int64_t>(options.batch_tokens, 512));
  params.n_outputs_max = static_cast<std::uint32_t>(std::max(options.batch_outputs, options.num_sequences));
  params.n_threads = params.n_threads_batch = static_cast<std::int32_t>(options.threads);
  params.kv_unified = options.shared_cache;
  params.swa_full = true;  // a sliding layer keeps its whole past, so that any length can be cut back to
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.pooling_type = LLAMA_POOLING_TYPE_NONE;
  if (options.taps != nullptr) {
    params.cb_eval = &TapReader::receive;
    params.cb_eval_user_data = options.taps;
  }
  ContextPtr context(llama_init_from_model(&model, params));
  require(context != nullptr, "the target cannot get a context of ", options.num_cells, " tokens (",
          options.num_sequences, " sequences): ", llama_error());
  return context;
}

void Batch::add(std::int32_t token, std::int64_t position, std::int64_t sequence, bool wants_output) {
  tokens_.push_back(token);
  positions_.push_back(static_cast<std::int32_t>(position));
  num_sequences_.push_back(1);
  sequences_.push_back(static_cast<std::int32_t>(sequence));
  outputs_.push_back(wants_output ? 1 : 0);
}

void Batch::clear() {
  tokens_.clear();
  positions_.clear();
  num_sequences_.clear();
  sequences_.clear();
  outputs_.clear();
}

void Batch::run(llama_context& context) {
  DRAFTSMITH_ASSERT(size() > 0 && size() <= static_cast<std::int64_t>(llama_n_batch(&context)));
  std::vector<llama_seq_id*> sequence_lists;
  sequence_lists.reserve(sequences_.size());
  for (std::int32_t& sequence : sequences_) sequence_lists.push_back(&sequence);
  llama_batch batch = {};
  batch.n_tokens = static_cast<std::int32_t>(tokens_.size());
  batch.token = tokens_.data();
  batch.pos = positions_.data();
  batch.n_seq_id = num_sequences_.data();
  batch.seq_id = sequence_lists.data();
  batch.logits = outputs_.data();
  watch_llama_log();
  const int status = llama_decode(&context, batch);
  require(status == 0, "the target could not run a batch of ", size(), " tokens: ",
          status == 1 ? std::string("its cache of ") + std::to_string(llama_n_ctx(&context)) + " tokens is full"
                      : llama_error());
}

bool forget_from(llama_context& context, std::int64_t sequence, std::int64_t position) {
  return llama_memory_seq_rm(llama_get_memory(&context), static_cast<llama_seq_id>(sequence),
                             static_cast<llama_pos>(position), -1);
}

void forget_all(llama_context& context) { llama_memory_clear(llama_get_memory(&context), false); }

}  // namespace draftsmith
