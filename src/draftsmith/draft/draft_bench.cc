// Time of one training pass of a small drafter (SmolLM2-135M's width) on random features: 3 layers, 576 / 1536, 9/3
// heads of 64, 5 taps, vocabulary 49,152, a row of 512 tokens in one document, 192 anchors of 8 slots; bf16, two
// threads.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>

#include <chrono>

#include "draftsmith/draft/draft_session.h"
#include "draftsmith/draft/test_drafter.h"

namespace draftsmith {
namespace {

DrafterConfig bench_config() {
  DrafterConfig config;
  config.hidden_size = 576;
  config.intermediate_size = 1536;
  config.num_layers = 3;
  config.num_heads = 9;
  config.num_kv_heads = 3;
  config.head_dim = 64;
  config.vocab_size = 49152;
  config.block_size = 8;
  config.mask_token_id = 17;
  config.target_layer_ids = {1, 7, 14, 20, 27};
  config.num_target_layers = 30;
  config.layer_kinds.assign(3, LayerKind::kFull);
  return config;
}

// Uniform numbers: normal ones would take longer than what is measured.
void fill(const at::Tensor& t, Rng& rng, double scale) {
  float* values = t.data_ptr<float>();
  for (std::int64_t i = 0; i < t.numel(); ++i) values[i] = static_cast<float>((rng.uniform() - 0.5) * 2 * scale);
}

struct Bench {
  DrafterConfig config = bench_config();
  DrafterParams params = empty_params(config);
  TestPack in;
  BlockInputs blocks;
  at::Tensor embedding, block_embeddings;
  Compute compute;

  explicit Bench(Compute type, int threads) : compute(type) {
    at::set_num_threads(threads);
    Rng rng(1, RngPurpose::kInit);
    visit_params(params, [&](const std::string&, at::Tensor& t) {
      t.fill_(1.0);
      if (t.dim() == 2) fill(t, rng, 0.03);
    });
    visit_params(params, [](const std::string&, at::Tensor& t) { t.requires_grad_(true); });
    in = pack_of(config, {random_document(config, 512, 1)});
    const std::vector<std::int64_t> anchors = sample_anchors(in.pack, {.per_document = 192, .per_pack = 192}, rng);
    blocks = make_block_inputs(in.pack, anchors, config);
    const at::ScalarType scalar = type == Compute::kBFloat16 ? at::kBFloat16 : at::kFloat;
    embedding = at::empty({config.vocab_size, config.hidden_size}, at::TensorOptions(at::kFloat));
    fill(embedding, rng, 0.1);
    embedding = embedding.to(scalar);
    block_embeddings = embedding.index_select(0, at::tensor(blocks.block_token_ids));
  }

  at::Tensor forward() const {
    return drafter_forward(config, params,
                           {.features = in.features, .block_embeddings = block_embeddings, .blocks = &blocks}, compute);
  }
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Seconds of each part as counters: forward, loss (with the gradient of the hidden states), backward.
void training_pass(benchmark::State& state, Compute compute) {
  Bench bench(compute, static_cast<int>(state.range(0)));
  double forward = 0, loss = 0, backward = 0;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const at::Tensor hidden = bench.forward();
    forward += seconds_since(start);
    const auto middle = std::chrono::steady_clock::now();
    const LossResult result = head_loss(hidden, bench.embedding, bench.blocks, {});
    loss += seconds_since(middle);
    const auto last = std::chrono::steady_clock::now();
    hidden.backward(result.grad_hidden);
    backward += seconds_since(last);
  }
  using benchmark::Counter;
  state.counters["forward"] = Counter(forward, Counter::kAvgIterations);
  state.counters["loss"] = Counter(loss, Counter::kAvgIterations);
  state.counters["backward"] = Counter(backward, Counter::kAvgIterations);
}
BENCHMARK_CAPTURE(training_pass, bf16, Compute::kBFloat16)
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK_CAPTURE(training_pass, fp32, Compute::kFloat32)
    ->Arg(2)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

// One draft of a block behind so many committed positions, on so many threads.
void propose(benchmark::State& state) {
  Bench bench(Compute::kBFloat16, static_cast<int>(state.range(1)));
  DraftSession session(bench.config, bench.params, bench.embedding, bench.embedding, 512, Compute::kBFloat16);
  session.append(bench.in.features.narrow(0, 0, state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(session.propose(5, 7));
}
BENCHMARK(propose)->Args({50, 1})->Args({500, 1})->Args({500, 2})->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace draftsmith
