// For tests: a target without a model. Its embedding and hidden states are fixed random functions of token, position
// and layer, so that a drafter can learn from them and every run sees the same bits. Also a tiny run around it.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "draftsmith/base/rng.h"
#include "draftsmith/config/run_config.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/target/target.h"

namespace draftsmith {

class ChainTarget : public Target {
 public:
  explicit ChainTarget(std::int64_t vocab = 40) {
    info_.name = "fake";
    info_.num_layers = 8;
    info_.hidden_size = 32;
    info_.intermediate_size = 64;
    info_.num_heads = 4;
    info_.num_kv_heads = 2;
    info_.head_dim = 16;
    info_.vocab_size = vocab;
    info_.context_length = 256;
    embedding_ = at::empty({vocab, info_.hidden_size}, at::kFloat);
    fill(embedding_, {0}, 1.0);
  }
  const TargetInfo& info() const override { return info_; }
  at::Tensor embedding() override { return embedding_; }
  at::Tensor head() override { return embedding_; }
  DocumentFeatures features(std::span<const std::int32_t> document, std::span<const std::int64_t> taps,
                            bool want_final_state) override {
    const auto length = static_cast<std::int64_t>(document.size());
    at::Tensor rows = at::empty({length, static_cast<std::int64_t>(taps.size()) * info_.hidden_size}, at::kFloat);
    for (std::int64_t t = 0; t < length; ++t)
      for (std::size_t k = 0; k < taps.size(); ++k)
        rows[t]
            .narrow(0, static_cast<std::int64_t>(k) * info_.hidden_size, info_.hidden_size)
            .copy_(state(document[t], t, taps[k]));
    DocumentFeatures out{.taps = rows.to(at::kBFloat16), .final_state = {}};
    // The head is the embedding: this state expects the next token of the document.
    if (want_final_state) {
      std::vector<std::int64_t> next(document.begin() + 1, document.end());
      next.push_back(document.back());
      out.final_state = embedding_.index_select(0, at::tensor(next)).to(at::kBFloat16);
    }
    tokens_computed += length;
    if (seconds_a_token > 0)
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds_a_token * static_cast<double>(length)));
    return out;
  }
  std::unique_ptr<TargetSession> session(std::span<const std::int64_t>, std::int64_t) override {
    throw std::logic_error("no session");
  }
  std::vector<Answer> generate(std::span<const std::vector<std::int32_t>>, const GenerateOptions&,
                               const std::function<void(std::int64_t, const Answer&)>&) override {
    throw std::logic_error("no generation");
  }
  at::Tensor weight(const DecoderWeight&) override { return {}; }

  std::int64_t tokens_computed = 0;
  double seconds_a_token = 0;

 private:
  void fill(const at::Tensor& tensor, std::initializer_list<std::uint64_t> keys, double scale) const {
    Rng rng(7, RngPurpose::kTest, keys);
    float* values = tensor.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = static_cast<float>(scale * rng.normal());
  }
  at::Tensor state(std::int32_t token, std::int64_t position, std::int64_t layer) {
    at::Tensor& known = states_[{token, position, layer}];
    if (!known.defined()) {
      known = at::empty({info_.hidden_size}, at::kFloat);
      at::Tensor place = at::empty({info_.hidden_size}, at::kFloat);
      fill(known, {1, static_cast<std::uint64_t>(token), static_cast<std::uint64_t>(layer)}, 1.0);
      fill(place, {2, static_cast<std::uint64_t>(position), static_cast<std::uint64_t>(layer)}, 0.1);
      known.add_(place);
    }
    return known;
  }

  TargetInfo info_;
  at::Tensor embedding_;
  std::map<std::tuple<std::int32_t, std::int64_t, std::int64_t>, at::Tensor> states_;
};

// Documents that follow one chain of tokens, t -> (5 t + 3) mod 32, from varied starts; the first three tokens are a
// prompt.
inline DataSet chain_data(std::int64_t documents, std::int64_t min_length, std::int64_t max_length,
                          std::uint64_t seed) {
  DataSet out;
  out.tokenizer_digest = "fake";
  Rng rng(seed, RngPurpose::kTest);
  for (std::int64_t d = 0; d < documents; ++d) {
    std::vector<std::int32_t> tokens(min_length + rng.below(max_length - min_length + 1));
    auto token = static_cast<std::int32_t>(rng.below(32));
    for (std::int32_t& t : tokens) {
      t = token;
      token = (5 * token + 3) % 32;
    }
    std::vector<std::uint8_t> mask(tokens.size(), 1);
    std::fill_n(mask.begin(), 3, 0);
    out.add_document(tokens, mask);
  }
  return out;
}

// A run of seconds in a folder of its own, removed at the end.
struct TinyRun {
  ChainTarget target;
  DataFolder data;
  RunConfig config;
  std::filesystem::path folder;

  explicit TinyRun(const std::string& name) {
    folder = std::filesystem::temp_directory_path() / ("ds_train_" + name + "_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    data = {.train = chain_data(40, 12, 24, 1), .eval = chain_data(6, 12, 24, 2)};
    config.output = (folder / "run").string();
    config.data.path = "chain";
    config.threads = 1;
    config.draft.layers = 2;
    config.draft.block_size = 4;
    config.draft.mask_token_id = 39;
    config.train.row_length = 64;
    config.train.compute = Compute::kFloat32;
    config.train.learning_rate = 1e-2;
    config.train.log_every = 1;
    config.train.save_every = 0;
    config.train.epochs = 3;
    config.train.feature_cache_mb = 16;
    config.train.feature_disk_mb = 0;
  }
  ~TinyRun() { std::filesystem::remove_all(folder); }
};

}  // namespace draftsmith
