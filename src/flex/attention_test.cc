// Every instruction set, type, mask, score and odd shape against the oracle in double: the error is at most twice that
// of the naive computation in the same type.
#include "flex/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "flex/reference.h"

namespace flex {
namespace {

float to_float(float x) { return x; }
float to_float(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
template <class T>
T from_float(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16)};
  }
}
float round_to_bf16(float x) { return to_float(from_float<BFloat16>(x)); }

struct Shape {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, queries = 16, context = 0, block = 16, dim = 16;
};

// How a tensor lies in memory.
enum class Layout { kDense, kHeadsInside, kWideRows };

// A tensor [B, H, N, D] with its memory.
template <class T>
struct Tensor {
  std::vector<T> memory;
  View<T> view;

  Tensor(std::array<std::int64_t, 4> size, Layout layout) {
    view.size = size;
    const std::int64_t row = size[3] + (layout == Layout::kWideRows ? 7 : 0);
    if (layout == Layout::kHeadsInside) {
      view.stride = {size[1] * size[2] * row, row, size[1] * row, 1};
    } else {
      view.stride = {size[1] * size[2] * row, size[2] * row, row, 1};
    }
    memory.assign(static_cast<std::size_t>(size[0] * size[1] * size[2] * row + 1), from_float<T>(NAN));
    view.data = memory.data();
  }
  View<const T> constant() const { return {memory.data(), view.size, view.stride}; }
  template <class Body>
  void for_each(const Body& body) const {
    for (std::int64_t b = 0; b < view.size[0]; ++b)
      for (std::int64_t h = 0; h < view.size[1]; ++h)
        for (std::int64_t n = 0; n < view.size[2]; ++n)
          for (std::int64_t d = 0; d < view.size[3]; ++d) body(b, h, n, d, view.row(b, h, n)[d]);
  }
};

template <class T>
struct Case {
  Shape shape;
  double scale;
  Tensor<T> q, k[2], v[2], o, d_o, dq, dk[2], dv[2];
  Tensor<float> lse;
  ReferenceProblem reference;

  Case(const Shape& s, Layout layout, std::uint64_t seed)
      : shape(s),
        scale(0.7 / std::sqrt(static_cast<double>(s.dim))),
        q({s.batch, s.heads, s.queries, s.dim}, layout),
        k{Tensor<T>({s.batch, s.kv_heads, s.context, s.dim}, layout),
          Tensor<T>({s.batch, s.kv_heads, s.block, s.dim}, layout)},
        v{k[0], k[1]},
        o(q),
        d_o(q),
        dq(q),
        dk{k[0], k[1]},
        dv{k[0], k[1]},
        lse({s.batch, s.heads, s.queries, 1}, layout) {
    for (Tensor<T>* tensor : all()) tensor->view.data = tensor->memory.data();
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    reference = {
        .batch = s.batch,
        .heads = s.heads,
        .kv_heads = s.kv_heads,
        .queries = s.queries,
        .keys = s.context + s.block,
        .dim = s.dim,
        .scale = static_cast<double>(static_cast<float>(scale)),
        .q = {},
        .k = std::vector<double>(static_cast<std::size_t>(s.batch * s.kv_heads * (s.context + s.block) * s.dim)),
        .v = {},
        .d_o = {}};
    reference.v = reference.k;
    const auto fill = [&](Tensor<T>& tensor, float size, const auto& keep) {
      tensor.for_each([&](std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t d, T& x) {
        x = from_float<T>(size * normal(random));
        keep(b, h, n, d, static_cast<double>(to_float(x)));
      });
    };
    fill(q, 1.5f, [&](auto, auto, auto, auto, double x) { reference.q.push_back(x); });
    fill(d_o, 1.0f, [&](auto, auto, auto, auto, double x) { reference.d_o.push_back(x); });
    for (int source = 0; source < 2; ++source) {
      const auto into = [&](std::vector<double>& to) {
        return [&, source](std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t d, double x) {
          to[static_cast<std::size_t>(index(b, h, n + (source == 1 ? s.context : 0), d))] = x;
        };
      };
      fill(k[source], 1.5f, into(reference.k));
      fill(v[source], 1.0f, into(reference.v));
    }
  }
  std::int64_t index(std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t d) const {
    return ((b * shape.kv_heads + h) * (shape.context + shape.block) + n) * shape.dim + d;
  }
  std::vector<Tensor<T>*> all() {
    return {&q, &k[0], &k[1], &v[0], &v[1], &o, &d_o, &dq, &dk[0], &dk[1], &dv[0], &dv[1]};
  }
  Inputs<T> inputs() const {
    return {q.constant(),
            {k[0].constant(), v[0].constant()},
            {k[1].constant(), v[1].constant()},
            static_cast<float>(scale)};
  }

  template <Score S>
  void run(const BlockMask& mask, const S& score, Isa isa, Executor& executor) {
    const Inputs<T> in = inputs();
    std::vector<std::byte> workspace(static_cast<std::size_t>(forward_workspace(in, mask, executor.num_threads())));
    forward(in, Outputs<T>{o.view, lse.view}, mask, flex::Run{executor, workspace, isa}, score);
    workspace.resize(static_cast<std::size_t>(backward_workspace(in, mask, executor.num_threads())));
    backward(in, Saved<T>{o.constant(), d_o.constant(), lse.constant()},
             Gradients<T>{dq.view, {dk[0].view, dv[0].view}, {dk[1].view, dv[1].view}}, mask,
             flex::Run{executor, workspace, isa}, score);
  }
  // What the kernels made, in the oracle's order.
  ReferenceResult result() const {
    ReferenceResult out;
    const auto list = [](const auto& tensor) {
      std::vector<double> values;
      tensor.for_each([&](auto, auto, auto, auto, auto& x) { values.push_back(static_cast<double>(to_float(x))); });
      return values;
    };
    out.o = list(o), out.lse = list(lse), out.dq = list(dq);
    out.dk.resize(reference.k.size()), out.dv.resize(reference.k.size());
    for (int source = 0; source < 2; ++source) {
      const std::int64_t offset = source == 1 ? shape.context : 0;
      dk[source].for_each([&](std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t d, const T& x) {
        out.dk[static_cast<std::size_t>(index(b, h, n + offset, d))] = static_cast<double>(to_float(x));
      });
      dv[source].for_each([&](std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t d, const T& x) {
        out.dv[static_cast<std::size_t>(index(b, h, n + offset, d))] = static_cast<double>(to_float(x));
      });
    }
    return out;
  }
};

double largest(const std::vector<double>& x) {
  double most = 0;
  for (const double value : x)
    if (std::isfinite(value)) most = std::max(most, std::fabs(value));
  return most;
}

// Largest difference; a NaN, or an infinity on one side alone, is infinite.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const double d = std::fabs(a[i] - b[i]);
    most = std::isnan(d) ? INFINITY : std::max(most, d);
  }
  return most;
}

// A score with its twin in double.
template <class S>
struct ScorePair {
  S score;
  std::function<double(double, const Place&)> value, slope;
};

template <class T, Mask M, class S>
void expect_near_oracle(const Shape& shape, const M& mask, const ScorePair<S>& score, Layout layout, Isa isa,
                        std::int64_t mask_batches = 1, std::int64_t mask_heads = 1) {
  Case<T> c(shape, layout, 17);
  const BlockMask blocks = BlockMask::build(mask, {.num_batches = mask_batches,
                                                   .num_heads = mask_heads,
                                                   .num_queries = shape.queries,
                                                   .num_keys = shape.context + shape.block,
                                                   .num_context = shape.context,
                                                   .tile_rows = tile_rows_for(shape.heads / shape.kv_heads)});
  Serial serial;
  c.run(blocks, score.score, isa, serial);
  const ReferenceResult ours = c.result();
  const auto plain = [](double x) { return x; };
  const ReferenceResult truth = reference<double>(c.reference, mask, score.value, score.slope, plain);
  const auto value = [&](float s, const Place& at) { return score.score.value(s, at); };
  const auto slope = [&](float s, const Place& at) { return score.score.derivative(s, at); };
  constexpr bool kBf16 = std::is_same_v<T, BFloat16>;
  const ReferenceResult naive =
      reference<float>(c.reference, mask, value, slope, [](float x) { return kBf16 ? round_to_bf16(x) : x; });
  // Besides, one rounding of the largest entry, or of the largest term (where terms cancel): a naive error may be 0 by
  // luck.
  const auto check = [&](const char* name, const std::vector<double>& x, const std::vector<double>& exact,
                         const std::vector<double>& other, double term) {
    const double unit = std::max(largest(exact), term) * (kBf16 ? 0x1p-8 : 0x1p-23);
    EXPECT_LE(distance(x, exact), 2 * distance(other, exact) + unit) << name << ", " << name_of(isa);
  };
  const double ds =
      c.scale * largest(c.reference.d_o) * largest(c.reference.v) * std::sqrt(static_cast<double>(shape.dim));
  check("o", ours.o, truth.o, naive.o, 0);
  check("lse", ours.lse, truth.lse, naive.lse, 0);
  check("dq", ours.dq, truth.dq, naive.dq, ds * largest(c.reference.k));
  check("dk", ours.dk, truth.dk, naive.dk, ds * largest(c.reference.q));
  check("dv", ours.dv, truth.dv, naive.dv, 0);
}

const ScorePair<Identity> kIdentity{
    {}, [](double s, const Place&) { return s; }, [](double, const Place&) { return 1.0; }};

std::vector<Isa> isas() {
  std::vector<Isa> out;
  for (const Isa isa : kAllIsas)
    if (is_supported(isa)) out.push_back(isa);
  return out;
}

template <Mask M, class S>
void expect_near_oracle_everywhere(const Shape& shape, const M& mask, const ScorePair<S>& score,
                                   Layout layout = Layout::kDense, std::int64_t mask_batches = 1,
                                   std::int64_t mask_heads = 1) {
  for (const Isa isa : isas()) {
    expect_near_oracle<float>(shape, mask, score, layout, isa, mask_batches, mask_heads);
    expect_near_oracle<BFloat16>(shape, mask, score, layout, isa, mask_batches, mask_heads);
  }
}

// Shapes: square tiles, ragged ends, one row, widths between vectors, grouped heads of every kind, many heads.
const Shape kShapes[] = {
    {1, 1, 1, 16, 0, 16, 16},   {1, 1, 1, 1, 0, 1, 16},     {2, 2, 1, 37, 0, 53, 20},   {1, 4, 1, 33, 70, 33, 64},
    {1, 9, 3, 40, 100, 40, 64}, {1, 8, 1, 50, 131, 50, 17}, {1, 10, 1, 19, 5, 19, 100}, {2, 6, 2, 130, 260, 130, 48},
    {1, 2, 2, 65, 1, 200, 128}, {1, 3, 1, 24, 64, 24, 256}, {1, 1, 1, 70, 300, 0, 33},
};

TEST(Attention, Everything) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.dim);
    expect_near_oracle_everywhere(shape, Everything{}, kIdentity);
  }
}

TEST(Attention, CausalAndSliding) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.dim);
    const std::int64_t offset = shape.context + shape.block - shape.queries;
    expect_near_oracle_everywhere(shape, Causal{offset}, kIdentity, Layout::kHeadsInside);
    expect_near_oracle_everywhere(shape, SlidingWindow{9, offset}, kIdentity, Layout::kWideRows);
  }
}

TEST(Attention, RowsWithoutKeys) {
  const auto some = [](std::int64_t, std::int64_t, std::int64_t q, std::int64_t k) { return q % 3 != 0 && k % 2 == 0; };
  const auto none = [](std::int64_t, std::int64_t, std::int64_t, std::int64_t) { return false; };
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.dim);
    expect_near_oracle_everywhere(shape, some, kIdentity);
    expect_near_oracle_everywhere(shape, none, kIdentity);
  }
}

TEST(Attention, DFlash) {
  struct Blocks {
    std::int64_t size;
    std::vector<std::int64_t> anchors, begins;
  };
  const Blocks all[] = {{16, {0, 7, 31, 60, 64}, {0, 0, 0, 50, 50}},
                        {8, {3, 4, 20, 20, 21, 90, 99}, {0, 0, 0, 0, 0, 80, 80}},
                        {5, {1, 2, 3, 50}, {0, 0, 0, 40}}};
  for (const Blocks& blocks : all) {
    for (const std::int64_t window : {0, 10}) {
      for (const auto in_block : {DFlashBlocks::InBlock::kBothWays, DFlashBlocks::InBlock::kCausal}) {
        const auto rows = static_cast<std::int64_t>(blocks.anchors.size()) * blocks.size;
        const DFlashBlocks mask{blocks.anchors, blocks.begins, 100, blocks.size, window, in_block};
        expect_near_oracle_everywhere({1, 8, 2, rows, 100, rows, 64}, mask, kIdentity);
        expect_near_oracle_everywhere({1, 3, 3, rows, 100, rows, 32}, mask, kIdentity);
      }
    }
  }
}

TEST(Attention, MasksOfBatchesAndHeads) {
  const auto mask = [](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
    return (q * 7 + k * 3 + h * 5 + b) % 4 != 0;
  };
  expect_near_oracle_everywhere({2, 4, 2, 33, 20, 33, 32}, mask, kIdentity, Layout::kDense, 2, 4);
  const auto by_batch = [](std::int64_t b, std::int64_t, std::int64_t q, std::int64_t k) { return k <= q + 3 * b; };
  expect_near_oracle_everywhere({3, 4, 2, 33, 20, 33, 32}, by_batch, kIdentity, Layout::kDense, 3, 1);
}

// Scores with their twins in double; at most kMaxHeads heads, kMaxQueries queries and kMaxScoreKeys keys.
constexpr std::int64_t kMaxHeads = 16, kMaxQueries = 160, kMaxScoreKeys = 400;

const ScorePair<SoftCap> kSoftCap{SoftCap{2.5f}, [](double s, const Place&) { return 2.5 * std::tanh(s / 2.5); },
                                  [](double s, const Place&) { return 1 - std::pow(std::tanh(s / 2.5), 2); }};

ScorePair<Alibi> alibi() {
  static const std::vector<float> slopes = [] {
    std::vector<float> out;
    for (std::int64_t h = 0; h < kMaxHeads; ++h) out.push_back(0.02f / static_cast<float>(1 + h));
    return out;
  }();
  return {Alibi{slopes.data(), 45},
          [](double s, const Place& at) {
            return s + static_cast<double>(slopes[static_cast<std::size_t>(at.h)]) * (at.k - (at.q + 45));
          },
          [](double, const Place&) { return 1.0; }};
}

ScorePair<AdditiveBias> additive_bias() {
  static const std::vector<float> bias = [] {
    std::vector<float> out(static_cast<std::size_t>(kMaxHeads * kMaxQueries * kMaxScoreKeys));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = 0.01f * static_cast<float>(i * 7919 % 401) - 2.0f;
    return out;
  }();
  const auto at_place = [](const Place& at) {
    return bias[static_cast<std::size_t>((at.h * kMaxQueries + at.q) * kMaxScoreKeys + at.k)];
  };
  return {AdditiveBias{bias.data(), kMaxQueries * kMaxScoreKeys, kMaxScoreKeys, 1},
          [=](double s, const Place& at) { return s + static_cast<double>(at_place(at)); },
          [](double, const Place&) { return 1.0; }};
}

template <Mask M>
void expect_near_oracle_with_score(std::uint64_t which, const Shape& shape, const M& mask, Layout layout) {
  switch (which % 4) {
    case 0:
      return expect_near_oracle_everywhere(shape, mask, kIdentity, layout);
    case 1:
      return expect_near_oracle_everywhere(shape, mask, kSoftCap, layout);
    case 2:
      return expect_near_oracle_everywhere(shape, mask, alibi(), layout);
    default:
      return expect_near_oracle_everywhere(shape, mask, additive_bias(), layout);
  }
}

TEST(Attention, Scores) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.dim);
    const std::int64_t offset = shape.context + shape.block - shape.queries;
    for (std::uint64_t which = 1; which < 4; ++which)
      expect_near_oracle_with_score(which, shape, SlidingWindow{40, offset}, Layout::kDense);
  }
}

// Random shapes, layouts, scores and masks: bits of any density, documents in any order, DFlash blocks, ranges.
TEST(Attention, RandomProblems) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
    };
    const std::int64_t kv_heads = pick(1, 3), group = pick(1, 5);
    Shape shape{pick(1, 2), kv_heads * group, kv_heads, pick(1, 90), pick(0, 150), pick(0, 90), pick(16, 90)};
    if (shape.context + shape.block == 0) shape.block = 1;
    const Layout layout = std::array{Layout::kDense, Layout::kHeadsInside, Layout::kWideRows}[random() % 3];
    const std::uint64_t which = random();
    const std::int64_t keys = shape.context + shape.block;
    if (round % 3 == 0) {
      std::vector<char> bits(static_cast<std::size_t>(shape.queries * keys));
      const std::uint64_t density = random() % 101;
      for (char& bit : bits) bit = random() % 100 < density ? 1 : 0;
      const auto mask = [&](std::int64_t, std::int64_t, std::int64_t q, std::int64_t k) {
        return bits[static_cast<std::size_t>(q * keys + k)] != 0;
      };
      expect_near_oracle_with_score(which, shape, mask, layout);
    } else if (round % 3 == 1) {
      std::vector<std::int32_t> q(static_cast<std::size_t>(shape.queries)), k(static_cast<std::size_t>(keys));
      for (auto* ids : {&q, &k}) {
        for (std::int32_t& id : *ids) id = static_cast<std::int32_t>(pick(-1, 3));
        if (random() % 2 == 0) std::sort(ids->begin(), ids->end());
      }
      expect_near_oracle_with_score(which, shape, any_of(SameDocument(q, k), Prefix{pick(0, 20)}), layout);
    } else {
      const std::int64_t size = pick(1, 17), blocks = pick(1, 8);
      std::vector<std::int64_t> anchors, begins;
      for (std::int64_t i = 0; i < blocks; ++i) {
        anchors.push_back(pick(0, shape.context));
        begins.push_back(pick(0, anchors.back()));
      }
      shape.queries = shape.block = size * blocks;
      const DFlashBlocks mask{anchors,
                              begins,
                              shape.context,
                              size,
                              random() % 2 == 0 ? 0 : pick(1, 60),
                              random() % 2 == 0 ? DFlashBlocks::InBlock::kBothWays : DFlashBlocks::InBlock::kCausal};
      expect_near_oracle_with_score(which, shape, mask, layout);
    }
  }
}

// Anything but the caller's number of threads may change a bit.
TEST(Attention, ThreadsDoNotChangeABit) {
  std::vector<std::int64_t> anchors(40), begins(40, 0);
  for (std::size_t i = 0; i < anchors.size(); ++i) anchors[i] = 5 + 12 * static_cast<std::int64_t>(i);
  const Shape shape{1, 4, 1, 640, 500, 640, 64};
  const DFlashBlocks mask{anchors, begins, 500, 16};
  const BlockMask blocks =
      BlockMask::build(mask, {.num_queries = 640, .num_keys = 1140, .num_context = 500, .tile_rows = tile_rows_for(4)});
  const auto results = [&]<class T>(T) {
    std::vector<ReferenceResult> out;
    for (const int threads : {1, 2, 3, 7}) {
      ThreadPool pool(threads);
      Case<T> c(shape, Layout::kDense, 3);
      c.run(blocks, Identity{}, default_isa(), pool);
      out.push_back(c.result());
    }
    return out;
  };
  for (const auto& list : {results(float{}), results(BFloat16{})}) {
    for (const ReferenceResult& other : list) {
      EXPECT_EQ(other.o, list[0].o);
      EXPECT_EQ(other.dq, list[0].dq);
      EXPECT_EQ(other.dk, list[0].dk);
      EXPECT_EQ(other.dv, list[0].dv);
    }
  }
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Attention, TheDoorSaysWhatDoesNotFit) {
  Case<float> c({1, 4, 2, 8, 4, 8, 32}, Layout::kDense, 1);
  const BlockMask mask = BlockMask::build(Everything{}, {.num_queries = 8, .num_keys = 12, .num_context = 4});
  Serial serial;
  std::vector<std::byte> workspace(static_cast<std::size_t>(forward_workspace(c.inputs(), mask, 1)));
  const auto with = [&](const std::function<void(Inputs<float>&)>& change) {
    Inputs<float> in = c.inputs();
    change(in);
    return refusal([&] { forward(in, {c.o.view, c.lse.view}, mask, flex::Run{serial, workspace}); });
  };
  EXPECT_EQ(with([](Inputs<float>& in) { in.q.size[3] = 8; }), "[flex.forward] head_dim is 8; it must be 16 to 256");
  EXPECT_EQ(with([](Inputs<float>& in) { in.context.k.size[3] = 31; }),
            "[flex.forward] context k is [1, 2, 4, 31]; it must be [1, 2, 4, 32]");
  EXPECT_EQ(with([](Inputs<float>& in) { in.q.size[1] = 3; }),
            "[flex.forward] q has 3 heads and k 2; q's must be a multiple of k's");
  EXPECT_EQ(with([](Inputs<float>& in) { in.block.v.stride[3] = 2; }),
            "[flex.forward] block v must be dense in its last dimension (stride 1)");
  EXPECT_EQ(with([](Inputs<float>& in) { in.q.size[2] = 7; }),
            "[flex.forward] the mask is for 8 queries, 4 context and 8 block keys; the tensors have 7, 4 and 8");
  EXPECT_NE(refusal([&] {
              forward(c.inputs(), {c.o.view, c.lse.view}, mask, flex::Run{serial, std::span(workspace).first(100)});
            }).find("the workspace has 100 bytes; it needs"),
            std::string::npos);
}

}  // namespace
}  // namespace flex
