// Times one draft of a block behind a number of committed positions, on a number of threads, for a drafter of
// SmolLM2-135M's width.
// Training steps are measured by `draftsmith bench step`.
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include "draftsmith/bench/measure_step.h"
#include "draftsmith/bench/random_batch.h"

namespace draftsmith {
namespace {

void propose(benchmark::State& state) {
  at::set_num_threads(static_cast<int>(state.range(1)));
  const DrafterConfig config = step_shape("small").drafter;
  const Place place;
  const Frozen frozen = random_frozen(config, place, 0.1, 1);
  const auto drafter = random_drafter(config, place, at::kBFloat16, 1);
  const auto session = drafter->session(frozen, 512);
  session->append(random_taps(config, state.range(0), at::kFloat, 2));
  for (auto _ : state) benchmark::DoNotOptimize(session->propose(5, 7));
}
BENCHMARK(propose)->Args({50, 1})->Args({500, 1})->Args({500, 2})->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace draftsmith
