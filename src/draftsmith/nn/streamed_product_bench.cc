// Compares our products with a head (rows x width x ids) with the library's, in GFLOP/s on all cores. A square product
// gives the scale.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>

#include "draftsmith/nn/streamed_product.h"

namespace draftsmith {
namespace {

at::Tensor random_bf16(std::int64_t rows, std::int64_t columns) {
  return at::randn({rows, columns}, at::TensorOptions(at::kBFloat16));
}

void count(benchmark::State& state, double operations) {
  state.counters["GFLOP/s"] = benchmark::Counter(operations / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

enum class Way { kLibrary, kOurs };

template <Way way>
void logits(benchmark::State& state) {
  const std::int64_t rows = state.range(0), width = state.range(1), ids = state.range(2);
  const at::Tensor head = random_bf16(ids, width), hidden = random_bf16(rows, width);
  at::Tensor out = at::empty({rows, ids}, head.options());
  if (way == Way::kOurs && !can_stream(head)) return state.SkipWithError("needs AVX512_BF16");
  for (auto _ : state) {
    if (way == Way::kOurs)
      streamed_product_transposed(hidden, head, out);
    else
      at::mm_out(out, hidden, head.t());
  }
  count(state, 2.0 * static_cast<double>(rows * width * ids));
}

template <Way way>
void gradient(benchmark::State& state) {
  const std::int64_t rows = state.range(0), width = state.range(1), ids = state.range(2);
  const at::Tensor head = random_bf16(ids, width), of_logits = random_bf16(rows, ids);
  at::Tensor out = at::empty({rows, width}, head.options());
  if (way == Way::kOurs && !can_stream(head)) return state.SkipWithError("needs AVX512_BF16");
  for (auto _ : state) {
    if (way == Way::kOurs)
      streamed_product(of_logits, head, out);
    else
      at::mm_out(out, of_logits, head);
  }
  count(state, 2.0 * static_cast<double>(rows * width * ids));
}

void square(benchmark::State& state) {
  const std::int64_t size = state.range(0);
  const at::Tensor a = random_bf16(size, size);
  at::Tensor out = at::empty_like(a);
  for (auto _ : state) at::mm_out(out, a, a);
  count(state, 2.0 * static_cast<double>(size * size * size));
}

void shapes(benchmark::internal::Benchmark* bench) {
  for (const auto& shape : {std::vector<std::int64_t>{682, 576, 49152}, {220, 2048, 151936}, {135, 5120, 248320}})
    bench->Args(shape);
  bench->Unit(benchmark::kMillisecond)->UseRealTime();
}

BENCHMARK(square)->Arg(2048)->Arg(4096)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(logits<Way::kLibrary>)->Apply(shapes);
BENCHMARK(logits<Way::kOurs>)->Apply(shapes);
BENCHMARK(gradient<Way::kLibrary>)->Apply(shapes);
BENCHMARK(gradient<Way::kOurs>)->Apply(shapes);

}  // namespace
}  // namespace draftsmith
