// One draft of a block behind so many committed positions, on so many threads, for a drafter of SmolLM2-135M's width.
// Training steps are measured by `draftsmith bench step`.
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include "draftsmith/bench/random_row.h"
#include "draftsmith/draft/draft_session.h"

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

void propose(benchmark::State& state) {
  at::set_num_threads(static_cast<int>(state.range(1)));
  const DrafterConfig config = bench_config();
  const at::Tensor table = random_matrix(config.vocab_size, config.hidden_size, 0.1, at::kBFloat16, 1, 1);
  DraftSession session(config, random_drafter(config, at::kFloat, 1), table, table, 512, Compute::kBFloat16);
  session.append(random_matrix(state.range(0), config.num_taps() * config.hidden_size, 1.0, at::kFloat, 1, 2));
  for (auto _ : state) benchmark::DoNotOptimize(session.propose(5, 7));
}
BENCHMARK(propose)->Args({50, 1})->Args({500, 1})->Args({500, 2})->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace draftsmith
