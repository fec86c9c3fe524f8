#include "draftsmith/app/open_target.h"

#include <ATen/Parallel.h>

#include <thread>

#include "draftsmith/base/check.h"

namespace draftsmith {

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& model) {
  check_target_path(model);
  return Tokenizer::from_gguf(model);
}

std::unique_ptr<Tokenizer> tokenizer_of(const std::filesystem::path& model, const DataSet& data,
                                        const NoticeFn& notice) {
  auto tokenizer = open_tokenizer(model);
  require(tokenizer->digest() == data.tokenizer_digest, "the data was prepared with another tokenizer than that of ",
          model.string(), "; run `draftsmith prepare` again with this model");
  if (tokenizer->template_digest() != data.template_digest && notice)
    notice("the data was prepared with another chat template than that of " + model.string() +
           "; run `draftsmith prepare` again if answers should follow the new one");
  return tokenizer;
}

std::unique_ptr<Target> open_target(const OpenTarget& wanted) {
  set_threads(wanted.threads);
  return open_target(wanted.model, {.threads = wanted.threads, .compute = wanted.compute, .notice = wanted.notice},
                     wanted.llama);
}

void set_threads(std::int64_t threads) {
  const std::int64_t count = threads > 0 ? threads : static_cast<std::int64_t>(std::thread::hardware_concurrency());
  at::set_num_threads(static_cast<int>(count));
}

}  // namespace draftsmith
