// Measures how fast the attention is, as ratios within one process: to the GEMM of the same machine and type, and to
// what torch offers for the same mask. Only useful work counts: 4 D Hq P operations forward and 10 D Hq P backward,
// where P is the number of pairs of a query and a key that it sees.
//
//   flex_bench           times each shape with Google Benchmark
//   flex_bench --json    measures every bar (medians of 7 interleaved runs; about 5 minutes) and says whether they hold
//   flex_bench --json=0.7  the same against bars times 0.7, with 3 runs: for a machine that others use too
//
// Shapes of the DFlash mask (16 slots a block, anchors at even distances, documents one behind the other):
//   S1  context 512, 32 anchors, 8/2 heads of 64      S2  2048, 128 anchors, 16/4 of 128      S3  8192, 512, 32/8 of
//   128
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros_like.h>
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "flex/cpu.h"

namespace flex {
namespace {

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

template <class T>
constexpr at::ScalarType kTorchType = std::is_same_v<T, float> ? at::kFloat : at::kBFloat16;

// ---- shapes ---------------------------------------------------------------------------------------------------------

// A mask with its tensors, dense [H, N, D].
struct Layer {
  std::string name;
  std::int64_t heads, kv_heads, dim, queries, context, block;
  BlockMask mask;
  // The DFlash mask's parts; empty for the others.
  std::vector<std::int64_t> anchors, begins;

  double flops() const { return 14.0 * static_cast<double>(dim * heads) * static_cast<double>(mask.num_pairs()); }
};

constexpr std::int64_t kBlock = 16;

Layer dflash_layer(std::string name, const std::vector<std::int64_t>& documents, std::int64_t num_anchors,
                   std::int64_t heads, std::int64_t kv_heads, std::int64_t dim) {
  std::vector<std::int64_t> anchors, begins;
  std::int64_t context = 0;
  for (const std::int64_t length : documents) context += length;
  std::int64_t begin = 0;
  for (const std::int64_t length : documents) {
    const std::int64_t count = num_anchors * length / context;
    for (std::int64_t i = 0; i < count; ++i) {
      anchors.push_back(begin + (2 * i + 1) * length / (2 * count));
      begins.push_back(begin);
    }
    begin += length;
  }
  const auto queries = static_cast<std::int64_t>(anchors.size()) * kBlock;
  BlockMask mask =
      BlockMask::build(DFlashBlocks{anchors, begins, context, kBlock}, {.num_queries = queries,
                                                                        .num_keys = context + queries,
                                                                        .num_context = context,
                                                                        .tile_rows = tile_rows_for(heads / kv_heads)});
  return {std::move(name), heads, kv_heads, dim, queries, context, queries, std::move(mask), anchors, begins};
}

Layer s1() { return dflash_layer("S1", {320, 192}, 32, 8, 2, 64); }
Layer s2() { return dflash_layer("S2", {1024, 640, 384}, 128, 16, 4, 128); }
Layer s3(std::int64_t groups) {
  return dflash_layer(groups == 8 ? "S3" : "S3/8", {3072, 2304, 1664, 1152}, 512, 4 * groups, groups, 128);
}

template <Mask M>
Layer text_layer(std::string name, const M& mask, std::int64_t tokens) {
  const std::int64_t heads = 8, kv_heads = 2, dim = 128;
  return {std::move(name),
          heads,
          kv_heads,
          dim,
          tokens,
          tokens,
          0,
          BlockMask::build(mask, {.num_queries = tokens,
                                  .num_keys = tokens,
                                  .num_context = tokens,
                                  .tile_rows = tile_rows_for(heads / kv_heads)}),
          {},
          {}};
}

Layer causal() { return text_layer("causal 4096", Causal{}, 4096); }
Layer documents() {
  static std::vector<std::int32_t> ids(4096);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i < 2048 ? 0 : i < 3328 ? 1 : 2;
  return text_layer("causal documents 4096", all_of(SameDocument(ids, ids), Causal{}), 4096);
}

// ---- ours -----------------------------------------------------------------------------------------------------------

template <class T>
class Ours {
 public:
  explicit Ours(const Layer& layer) : layer_(layer) {
    const auto make = [&](std::int64_t heads, std::int64_t rows) {
      return (at::rand({heads, rows, layer.dim}) - 0.5).to(kTorchType<T>);
    };
    q = make(layer.heads, layer.queries), d_o = make(layer.heads, layer.queries), o = at::empty_like(q);
    dq = at::empty_like(q);
    for (int source = 0; source < 2; ++source) {
      const std::int64_t rows = source == 0 ? layer.context : layer.block;
      k[source] = make(layer.kv_heads, rows), v[source] = make(layer.kv_heads, rows);
      dk[source] = at::empty_like(k[source]), dv[source] = at::empty_like(v[source]);
    }
    lse = at::empty({layer.heads, layer.queries});
  }
  void run(Executor& executor) {
    const Inputs<T> in{view(q), {view(k[0]), view(v[0])}, {view(k[1]), view(v[1])}};
    const View<float> lse_view = dense_view(lse.data_ptr<float>(), {1, layer_.heads, layer_.queries, 1});
    const auto bytes = static_cast<std::size_t>(std::max(forward_workspace(in, layer_.mask, executor.num_threads()),
                                                         backward_workspace(in, layer_.mask, executor.num_threads())));
    if (workspace.size() < bytes) workspace.resize(bytes);
    const CpuCall call{executor, workspace};
    forward(in, Outputs<T>{view(o), lse_view}, layer_.mask, call);
    backward(in, Saved<T>{view(o), view(d_o), lse_view},
             Gradients<T>{view(dq), {view(dk[0]), view(dv[0])}, {view(dk[1]), view(dv[1])}}, layer_.mask, call);
  }

  at::Tensor q, k[2], v[2], o, d_o, dq, dk[2], dv[2], lse;
  std::vector<std::byte> workspace;

 private:
  static View<T> view(const at::Tensor& x) {
    return dense_view(reinterpret_cast<T*>(x.data_ptr()), {1, x.size(0), x.size(1), x.size(2)});
  }
  const Layer& layer_;
};

// ---- torch's --------------------------------------------------------------------------------------------------------

// Runs scaled_dot_product_attention with a dense mask, torch's CPU flash operator, forward and backward.
class TorchMasked {
 public:
  template <class T>
  TorchMasked(const Layer& layer, const Ours<T>& ours) {
    q_ = ours.q.unsqueeze(0), d_o_ = ours.d_o.unsqueeze(0);
    k_ = at::cat({ours.k[0], ours.k[1]}, 1).unsqueeze(0), v_ = at::cat({ours.v[0], ours.v[1]}, 1).unsqueeze(0);
    mask_ = at::full({layer.queries, layer.context + layer.block}, -std::numeric_limits<float>::infinity());
    float* rows = mask_.template data_ptr<float>();
    const std::int64_t keys = layer.context + layer.block;
    for (std::int64_t tile = 0; tile < layer.mask.num_tiles(); ++tile)
      for (const Segment& segment : layer.mask.row(0, tile))
        for (std::int64_t i = 0; i < layer.mask.rows_in(tile); ++i)
          for (std::int64_t key = segment.begin; key < segment.end; ++key)
            if (segment.bits < 0 || (layer.mask.bits(segment)[static_cast<std::size_t>(key - segment.begin)] >> i & 1))
              rows[(tile * layer.mask.shape().tile_rows + i) * keys + key] = 0;
    mask_ = mask_.to(q_.scalar_type());
    // The operator takes as many heads of keys as of queries.
    const std::int64_t group = layer.heads / layer.kv_heads;
    k_ = k_.repeat_interleave(group, 1), v_ = v_.repeat_interleave(group, 1);
  }
  void run() const {
    const auto [o, lse] = at::_scaled_dot_product_flash_attention_for_cpu(q_, k_, v_, 0.0, false, mask_);
    at::_scaled_dot_product_flash_attention_for_cpu_backward(d_o_, q_, k_, v_, o, lse, 0.0, false, mask_);
  }

 private:
  at::Tensor q_, k_, v_, d_o_, mask_;
};

// Runs the best that can be composed by hand of torch's operations, as an autograd function would. Forward loops over
// anchors with their exact ranges; the query heads of one key/value head are stacked as rows. Backward runs the same
// loop over what forward saved and adds gradients of keys and values in place. Each loop gathers an anchor's keys and
// rows for itself, because for all anchors they would take as much memory as scores. Each turn runs torch's flash
// operator, or plain products with the scores in memory, which backward computes again.
class TorchLoop {
 public:
  enum class Way { kFlash, kProducts };
  template <class T>
  TorchLoop(const Layer& layer, const Ours<T>& ours, Way way) : layer_(layer), way_(way) {
    q_ = ours.q, d_o_ = ours.d_o, dq_ = at::empty_like(q_), o_ = at::empty_like(q_);
    k_ = at::cat({ours.k[0], ours.k[1]}, 1), v_ = at::cat({ours.v[0], ours.v[1]}, 1);
    dk_ = at::zeros_like(k_, at::kFloat), dv_ = at::zeros_like(v_, at::kFloat);
    lse_.resize(layer.anchors.size());
  }
  void run() {
    forward();
    backward();
  }

 private:
  // The keys that one anchor sees, and its first row of queries.
  struct Piece {
    std::int64_t begin, count, row;
    at::Tensor k, v, q;
  };

  void forward() {
    for (std::size_t a = 0; a < layer_.anchors.size(); ++a) {
      const Piece piece = piece_of(a);
      at::Tensor o;
      if (way_ == Way::kFlash) {
        std::tie(o, lse_[a]) = at::_scaled_dot_product_flash_attention_for_cpu(
            piece.q.unsqueeze(0), piece.k.unsqueeze(0), piece.v.unsqueeze(0));
      } else {
        o = at::bmm(probabilities(piece), piece.v);
      }
      put(o_, piece, o);
    }
  }

  void backward() {
    dk_.zero_(), dv_.zero_();
    for (std::size_t a = 0; a < layer_.anchors.size(); ++a) {
      const Piece piece = piece_of(a);
      const at::Tensor d_o = rows_of(d_o_, piece.row), o = rows_of(o_, piece.row);
      at::Tensor dq, dk, dv;
      if (way_ == Way::kFlash) {
        std::tie(dq, dk, dv) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
            d_o.unsqueeze(0), piece.q.unsqueeze(0), piece.k.unsqueeze(0), piece.v.unsqueeze(0), o.unsqueeze(0), lse_[a],
            0.0, false);
        dq = dq[0], dk = dk[0], dv = dv[0];
      } else {
        const at::Tensor p = probabilities(piece), dp = at::bmm(d_o, piece.v.transpose(1, 2));
        const at::Tensor delta = (o * d_o).sum(-1, true);
        const at::Tensor ds = (dp - delta).mul_(p).mul_(scale());
        dq = at::bmm(ds, piece.k), dk = at::bmm(ds.transpose(1, 2), piece.q), dv = at::bmm(p.transpose(1, 2), d_o);
      }
      put(dq_, piece, dq);
      for (const auto& [all, part] : {std::pair(dk_, dk), std::pair(dv_, dv)}) {
        all.narrow(1, piece.begin, piece.count).add_(part.narrow(1, 0, piece.count));
        all.narrow(1, layer_.context + piece.row, kBlock).add_(part.narrow(1, piece.count, kBlock));
      }
    }
  }

  double scale() const { return 1 / std::sqrt(static_cast<double>(layer_.dim)); }

  at::Tensor probabilities(const Piece& piece) const {
    return at::bmm(piece.q, piece.k.transpose(1, 2)).mul_(scale()).softmax(-1);
  }

  Piece piece_of(std::size_t a) const {
    Piece piece{.begin = layer_.begins[a],
                .count = layer_.anchors[a] - layer_.begins[a],
                .row = static_cast<std::int64_t>(a) * kBlock,
                .k = {},
                .v = {},
                .q = {}};
    const auto keys_of = [&](const at::Tensor& x) {
      return at::cat({x.narrow(1, piece.begin, piece.count), x.narrow(1, layer_.context + piece.row, kBlock)}, 1);
    };
    piece.k = keys_of(k_), piece.v = keys_of(v_), piece.q = rows_of(q_, piece.row);
    return piece;
  }

  at::Tensor rows_of(const at::Tensor& x, std::int64_t row) const {
    const std::int64_t group = layer_.heads / layer_.kv_heads;
    return x.narrow(1, row, kBlock).reshape({layer_.kv_heads, group * kBlock, layer_.dim});
  }

  void put(const at::Tensor& all, const Piece& piece, const at::Tensor& rows) const {
    all.narrow(1, piece.row, kBlock).copy_(rows.reshape({layer_.heads, kBlock, layer_.dim}));
  }

  const Layer& layer_;
  const Way way_;
  at::Tensor q_, k_, v_, o_, d_o_, dq_, dk_, dv_;
  std::vector<at::Tensor> lse_;
};

// Measures the best of three square products.
class Gemm {
 public:
  Gemm(at::ScalarType type, const std::vector<std::int64_t>& sizes = {1024, 2048, 4096}) {
    for (const std::int64_t n : sizes) {
      a_.push_back(at::rand({n, n}).to(type));
      c_.push_back(at::empty({n, n}, a_.back().options()));
    }
  }
  // Returns the operations a second of square i.
  double rate(std::size_t i) {
    const auto n = static_cast<double>(a_[i].size(0));
    return 2 * n * n * n / seconds_of([&] { at::mm_out(c_[i], a_[i], a_[i]); });
  }
  std::size_t count() const { return a_.size(); }

 private:
  std::vector<at::Tensor> a_, c_;
};

// ---- bars -----------------------------------------------------------------------------------------------------------

struct Bar {
  std::string name;
  double value, bound;
  bool at_most = false;  // else at least
  bool held = true;      // false: printed, not judged
  bool holds(double share) const { return !held || (at_most ? value <= bound / share : value >= bound * share); }
};

struct Report {
  int runs = 7;
  std::vector<Bar> bars;
  std::map<std::string, double> figures;
  void add(const Bar& bar) {
    std::fprintf(stderr, "%-52s %8.3f  (%s %.3f%s)\n", bar.name.c_str(), bar.value,
                 bar.at_most ? "at most" : "at least", bar.bound, bar.held ? "" : ", not judged on this processor");
    bars.push_back(bar);
  }
  void note(const std::string& name, double value) {
    std::fprintf(stderr, "%-52s %8.3f\n", name.c_str(), value);
    figures[name] = value;
  }
};

// Returns the medians of interleaved runs, in which the contestants take turns.
std::vector<double> race(const std::vector<std::function<double()>>& contestants, int runs) {
  std::vector<std::vector<double>> times(contestants.size());
  for (const auto& contestant : contestants) contestant();  // pages and caches
  for (int run = 0; run < runs; ++run)
    for (std::size_t i = 0; i < contestants.size(); ++i) times[i].push_back(contestants[i]());
  std::vector<double> out;
  for (const auto& list : times) out.push_back(median(list));
  return out;
}

// Compares the rates of the reference GEMM and of ours on one thread, interleaved.
template <class T>
void race_gemm(Report& report, const Layer& layer, double bound, const std::string& type, bool judged = true) {
  at::set_num_threads(1);
  Serial serial;
  Ours<T> ours(layer);
  Gemm gemm(kTorchType<T>);
  std::vector<std::function<double()>> contestants = {[&] { return seconds_of([&] { ours.run(serial); }); }};
  for (std::size_t i = 0; i < gemm.count(); ++i) contestants.push_back([&gemm, i] { return gemm.rate(i); });
  const std::vector<double> result = race(contestants, report.runs);
  const double best = *std::max_element(result.begin() + 1, result.end()), rate = layer.flops() / result[0];
  report.note(layer.name + " " + type + " GFLOP/s", rate / 1e9);
  report.note(layer.name + " " + type + " GEMM GFLOP/s", best / 1e9);
  report.add({layer.name + " " + type + " / GEMM", rate / best, bound, false, judged});
}

template <class T>
void race_torch(Report& report, const Layer& layer, double bound_loop, const std::string& type) {
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
  Serial serial;
  Ours<T> ours(layer);
  TorchLoop flash(layer, ours, TorchLoop::Way::kFlash), products(layer, ours, TorchLoop::Way::kProducts);
  const std::vector<double> loop =
      race({[&] { return seconds_of([&] { ours.run(serial); }); }, [&] { return seconds_of([&] { flash.run(); }); },
            [&] { return seconds_of([&] { products.run(); }); }},
           report.runs);
  report.add({layer.name + " " + type + " / loop over torch's flash operator", loop[1] / loop[0], bound_loop});
  report.note(layer.name + " " + type + " / loop over plain products", loop[2] / loop[0]);
  const TorchMasked masked(layer, ours);
  const std::vector<double> dense = race(
      {[&] { return seconds_of([&] { ours.run(serial); }); }, [&] { return seconds_of([&] { masked.run(); }); }}, 3);
  report.add({layer.name + " " + type + " / dense mask", dense[1] / dense[0], 10});
}

template <class T>
void race_threads(Report& report, const Layer& layer, const std::string& type) {
  ThreadPool two(2);
  Serial one;
  Ours<T> ours(layer);
  const std::vector<double> result =
      race({[&] { return seconds_of([&] { ours.run(one); }); }, [&] { return seconds_of([&] { ours.run(two); }); }},
           report.runs);
  report.add({layer.name + " " + type + " two threads / one", result[0] / result[1], 1.85, false,
              std::thread::hardware_concurrency() >= 2});
}

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

// Measures what a layer of the seed's size takes beyond its tensors: the workspace, the mask, and what the process grew
// by.
template <class T>
void measure_memory(Report& report, const std::string& type) {
  const Layer layer = s3(8);
  ThreadPool two(2);
  Ours<T> ours(layer);
  for (const at::Tensor& x : {ours.o, ours.dq, ours.dk[0], ours.dk[1], ours.dv[0], ours.dv[1], ours.lse}) x.zero_();
  const double before = peak_bytes();
  ours.run(two);
  const double grown = peak_bytes() - before, mask = static_cast<double>(layer.mask.bytes());
  report.add({"S3 " + type + " memory beyond the tensors, GB",
              std::max(grown, static_cast<double>(ours.workspace.size())) / 1e9 + mask / 1e9, 0.10, true});
}

void measure_mask(Report& report) {
  std::vector<double> times;
  for (int run = 0; run < report.runs; ++run) times.push_back(seconds_of([] { s3(8); }));
  report.add({"mask of S3, milliseconds", 1e3 * median(times), 10, true});
}

int report_bars(double share) {
  Report report{.runs = share < 1 ? 3 : 7, .bars = {}, .figures = {}};
  const bool pairs = default_isa() == Isa::kAvx512Bf16;
  if (!pairs)
    std::fprintf(stderr,
                 "bf16 does not race the library here: without AVX512_BF16 the library's products take minutes\n");
  measure_memory<BFloat16>(report, "bf16");
  measure_memory<float>(report, "fp32");
  measure_mask(report);
  const Layer small = s1(), middle = s2(), large = s3(1);
  race_gemm<float>(report, small, 0, "fp32", false);
  race_gemm<float>(report, middle, 0.95, "fp32");
  race_gemm<float>(report, large, 1.0, "fp32");
  if (pairs) {
    race_gemm<BFloat16>(report, small, 0, "bf16", false);
    race_gemm<BFloat16>(report, middle, 0.80, "bf16");
    race_gemm<BFloat16>(report, large, 0.88, "bf16");
  }
  race_gemm<float>(report, causal(), 0.85, "fp32");
  race_gemm<float>(report, documents(), 0.85, "fp32");
  race_torch<float>(report, middle, 1.5, "fp32");
  race_torch<float>(report, large, 1.35, "fp32");
  if (pairs) {
    race_torch<BFloat16>(report, middle, 3.0, "bf16");
    race_torch<BFloat16>(report, large, 2.7, "bf16");
  }
  race_threads<float>(report, middle, "fp32");
  race_threads<BFloat16>(report, middle, "bf16");
  race_threads<float>(report, large, "fp32");
  race_threads<BFloat16>(report, large, "bf16");

  bool all = true;
  std::printf("{\n  \"isa\": \"%s\",\n  \"share_of_bars\": %g,\n  \"bars\": [\n",
              std::string(name_of(default_isa())).c_str(), share);
  for (std::size_t i = 0; i < report.bars.size(); ++i) {
    const Bar& bar = report.bars[i];
    all = all && bar.holds(share);
    std::printf("    {\"name\": \"%s\", \"value\": %.4f, \"%s\": %g, \"judged\": %s, \"holds\": %s}%s\n",
                bar.name.c_str(), bar.value, bar.at_most ? "at_most" : "at_least", bar.bound,
                bar.held ? "true" : "false", bar.holds(share) ? "true" : "false",
                i + 1 < report.bars.size() ? "," : "");
  }
  std::printf("  ],\n  \"figures\": {");
  bool first = true;
  for (const auto& [name, value] : report.figures) {
    std::printf("%s\n    \"%s\": %.2f", first ? "" : ",", name.c_str(), value);
    first = false;
  }
  std::printf("\n  },\n  \"bars_hold\": %s\n}\n", all ? "true" : "false");
  return all ? 0 : 1;
}

template <class T>
void attention(benchmark::State& state, const std::function<Layer()>& make) {
  const Layer layer = make();
  Ours<T> ours(layer);
  ThreadPool pool(static_cast<int>(state.range(0)));
  ours.run(pool);
  for (auto _ : state) ours.run(pool);
  state.counters["GFLOP/s"] =
      benchmark::Counter(layer.flops() * static_cast<double>(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}

void gemm(benchmark::State& state, at::ScalarType type) {
  at::set_num_threads(static_cast<int>(state.range(0)));
  Gemm squares(type, {2048});
  double best = 0;
  for (auto _ : state) best = std::max(best, squares.rate(0));
  state.counters["best GFLOP/s"] = best / 1e9;
}

void register_all() {
  const std::pair<const char*, Layer (*)()> layers[] = {
      {"S1", s1}, {"S2", s2}, {"S3/8", [] { return s3(1); }}, {"causal", causal}, {"documents", documents}};
  const auto set_up = [](auto* b) { b->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime(); };
  for (const auto& [name, make] : layers) {
    set_up(benchmark::RegisterBenchmark((std::string(name) + " fp32").c_str(), attention<float>, make));
    set_up(benchmark::RegisterBenchmark((std::string(name) + " bf16").c_str(), attention<BFloat16>, make));
  }
  set_up(benchmark::RegisterBenchmark("GEMM 2048 fp32", gemm, at::kFloat));
  set_up(benchmark::RegisterBenchmark("GEMM 2048 bf16", gemm, at::kBFloat16));
}

}  // namespace
}  // namespace flex

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--json", 6) != 0) continue;
    return flex::report_bars(argv[i][6] == '=' ? std::atof(argv[i] + 7) : 1.0);
  }
  benchmark::Initialize(&argc, argv);
  flex::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
