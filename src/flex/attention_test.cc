// Compares every instruction set, type, mask, score and odd shape with the oracle in double.
#include "flex/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "flex/test_problem.h"

namespace flex {
namespace {

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

// ---- random problems ----

class RandomProblem {
 public:
  RandomProblem(std::mt19937_64& random, std::int64_t least_dim, std::int64_t most_dim) : random_(random) {
    const std::int64_t kv_heads = pick(1, 3), group = pick(1, 5);
    shape_ = {pick(1, 2),  kv_heads * group,         kv_heads, pick(1, 90), pick(0, 150),
              pick(0, 90), pick(least_dim, most_dim)};
    if (shape_.context + shape_.block == 0) shape_.block = 1;
    layout_ = std::array{Layout::kDense, Layout::kHeadsInside, Layout::kWideRows}[random_() % 3];
    score_ = random_();
  }

  void expect_with_bits() {
    const std::int64_t keys = shape_.context + shape_.block;
    std::vector<char> bits(static_cast<std::size_t>(shape_.queries * keys));
    const std::uint64_t density = random_() % 101;
    for (char& bit : bits) bit = random_() % 100 < density ? 1 : 0;
    expect([&](std::int64_t, std::int64_t, std::int64_t q, std::int64_t k) {
      return bits[static_cast<std::size_t>(q * keys + k)] != 0;
    });
  }

  void expect_with_documents() {
    std::vector<std::int32_t> q(static_cast<std::size_t>(shape_.queries)),
        k(static_cast<std::size_t>(shape_.context + shape_.block));
    for (auto* ids : {&q, &k}) {
      for (std::int32_t& id : *ids) id = static_cast<std::int32_t>(pick(-1, 3));
      if (random_() % 2 == 0) std::sort(ids->begin(), ids->end());
    }
    expect(any_of(SameDocument(q, k), Prefix{pick(0, 20)}));
  }

  void expect_with_blocks() {
    const std::int64_t size = pick(1, 17), blocks = pick(1, 8);
    std::vector<std::int64_t> anchors, begins;
    for (std::int64_t i = 0; i < blocks; ++i) {
      anchors.push_back(pick(0, shape_.context));
      begins.push_back(pick(0, anchors.back()));
    }
    shape_.queries = shape_.block = size * blocks;
    const std::int64_t window = random_() % 2 == 0 ? 0 : pick(1, 60);
    const auto in_block = random_() % 2 == 0 ? DFlashBlocks::InBlock::kBothWays : DFlashBlocks::InBlock::kCausal;
    expect(DFlashBlocks{anchors, begins, shape_.context, size, window, in_block});
  }

 private:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  template <Mask M>
  void expect(const M& mask) const {
    expect_near_oracle_with_score(score_, shape_, mask, layout_);
  }

  std::mt19937_64& random_;
  Shape shape_;
  Layout layout_;
  std::uint64_t score_;
};

// Problems have random shapes, layouts, scores and masks: bits of any density, documents in any order, DFlash blocks.
TEST(Attention, RandomProblems) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    RandomProblem(random, 16, 90).expect_with_bits();
    RandomProblem(random, 16, 90).expect_with_documents();
    RandomProblem(random, 16, 90).expect_with_blocks();
  }
}

TEST(Attention, RandomProblemsOfEveryWidth) {
  std::mt19937_64 random(7);
  for (const std::int64_t dim : kOddWidths) {
    SCOPED_TRACE(dim);
    RandomProblem(random, dim, dim).expect_with_bits();
    RandomProblem(random, dim, dim).expect_with_documents();
    RandomProblem(random, dim, dim).expect_with_blocks();
  }
}

// The number of threads changes no bit.
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
    return refusal([&] { forward(in, {c.o.view, c.lse.view}, mask, CpuCall{serial, workspace}); });
  };
  EXPECT_EQ(with([](Inputs<float>& in) { in.q.size[3] = 0; }), "[flex.forward] head_dim is 0; it must be 1 to 256");
  EXPECT_EQ(with([](Inputs<float>& in) { in.q.size[3] = 257; }), "[flex.forward] head_dim is 257; it must be 1 to 256");
  EXPECT_EQ(with([](Inputs<float>& in) { in.context.k.size[3] = 31; }),
            "[flex.forward] context k is [1, 2, 4, 31]; it must be [1, 2, 4, 32]");
  EXPECT_EQ(with([](Inputs<float>& in) { in.q.size[1] = 3; }),
            "[flex.forward] q has 3 heads and k 2; q's must be a multiple of k's");
  EXPECT_EQ(with([](Inputs<float>& in) { in.block.v.stride[3] = 2; }),
            "[flex.forward] block v must be dense in its last dimension (stride 1)");
  EXPECT_EQ(with([](Inputs<float>& in) { in.q.size[2] = 7; }),
            "[flex.forward] the mask is for 8 queries, 4 context and 8 block keys; the tensors have 7, 4 and 8");
  EXPECT_NE(refusal([&] {
              forward(c.inputs(), {c.o.view, c.lse.view}, mask, CpuCall{serial, std::span(workspace).first(100)});
            }).find("the workspace has 100 bytes; it needs"),
            std::string::npos);
}

// Takes calls and computes nothing.
struct Recorder final : Call {
  mutable int forwards = 0, backwards = 0;
  mutable const void* score = nullptr;
  void forward(const Inputs<float>&, const Outputs<float>&, const BlockMask&, const AnyScore& any) const override {
    ++forwards, score = any.score;
  }
  void forward(const Inputs<BFloat16>&, const Outputs<BFloat16>&, const BlockMask&, const AnyScore&) const override {}
  void backward(const Inputs<float>&, const Saved<float>&, const Gradients<float>&, const BlockMask&,
                const AnyScore& any) const override {
    ++backwards, score = any.score;
  }
  void backward(const Inputs<BFloat16>&, const Saved<BFloat16>&, const Gradients<BFloat16>&, const BlockMask&,
                const AnyScore&) const override {}
};

TEST(Attention, AnyBackendGetsCallsThatPassedTheDoor) {
  Case<float> c({1, 4, 2, 8, 4, 8, 32}, Layout::kDense, 1);
  const BlockMask mask = BlockMask::build(Everything{}, {.num_queries = 8, .num_keys = 12, .num_context = 4});
  const Recorder recorder;
  const SoftCap cap{3};
  forward(c.inputs(), {c.o.view, c.lse.view}, mask, recorder, cap);
  EXPECT_EQ(recorder.forwards, 1);
  EXPECT_EQ(recorder.score, &cap);
  const auto backward_with = [&](View<float> dk) {
    backward(c.inputs(), Saved<float>{c.o.constant(), c.d_o.constant(), c.lse.view},
             Gradients<float>{c.dq.view, {dk, c.dv[0].view}, {c.dk[1].view, c.dv[1].view}}, mask, recorder);
  };
  backward_with(c.dk[0].view);
  EXPECT_EQ(recorder.backwards, 1);
  EXPECT_NE(refusal([&] { backward_with(c.dk[1].view); }).find("[flex.backward] context dk is"), std::string::npos);
  EXPECT_EQ(recorder.backwards, 1);
}

}  // namespace
}  // namespace flex
