#include "flex/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "flex/cpu/kernel_types.h"
#include "flex/plan.h"

namespace flex {
namespace {

using detail::BackwardPlan;
using detail::BackwardTile;
using detail::Chunk;
using detail::ForwardTile;
using detail::KeyGradients;
using detail::KeySpan;
using detail::padded;
using detail::Problem;
using detail::Tile;

constexpr std::int64_t kAlignment = 64;

// ---- the door --------------------------------------------------------------------------------------------------------

[[noreturn]] void refuse(const char* where, const std::string& text) {
  throw Error(std::string("[flex.") + where + "] " + text);
}

std::string sizes_of(const std::array<std::int64_t, 4>& size) {
  std::string out = "[";
  for (std::size_t i = 0; i < 4; ++i) out += (i > 0 ? ", " : "") + std::to_string(size[i]);
  return out + "]";
}

template <class T>
void check_tensor(const char* where, const char* name, const View<T>& x, const std::array<std::int64_t, 4>& size) {
  if (x.size != size) refuse(where, std::string(name) + " is " + sizes_of(x.size) + "; it must be " + sizes_of(size));
  const bool empty = size[0] * size[1] * size[2] * size[3] == 0;
  if (empty) return;
  if (x.data == nullptr) refuse(where, std::string(name) + " has no data");
  if (x.stride[3] != 1) refuse(where, std::string(name) + " must be dense in its last dimension (stride 1)");
}

template <class T>
void check_inputs(const char* where, const Inputs<T>& in, const BlockMask& mask) {
  const auto [batch, heads, queries, dim] = in.q.size;
  const std::int64_t kv_heads = in.context.k.size[1], context = in.context.k.size[2], block = in.block.k.size[2];
  if (dim < 16 || dim > detail::kMaxDim)
    refuse(where, "head_dim is " + std::to_string(dim) + "; it must be 16 to " + std::to_string(detail::kMaxDim));
  if (kv_heads < 1 || heads < 1 || heads % kv_heads != 0)
    refuse(where, "q has " + std::to_string(heads) + " heads and k " + std::to_string(kv_heads) +
                      "; q's must be a multiple of k's");
  check_tensor(where, "q", in.q, in.q.size);
  check_tensor(where, "context k", in.context.k, {batch, kv_heads, context, dim});
  check_tensor(where, "context v", in.context.v, {batch, kv_heads, context, dim});
  check_tensor(where, "block k", in.block.k, {batch, kv_heads, block, dim});
  check_tensor(where, "block v", in.block.v, {batch, kv_heads, block, dim});
  const BlockMaskShape& shape = mask.shape();
  if (shape.num_queries != queries || shape.num_context != context || shape.num_keys != context + block)
    refuse(where, "the mask is for " + std::to_string(shape.num_queries) + " queries, " +
                      std::to_string(shape.num_context) + " context and " +
                      std::to_string(shape.num_keys - shape.num_context) + " block keys; the tensors have " +
                      std::to_string(queries) + ", " + std::to_string(context) + " and " + std::to_string(block));
  if ((shape.num_batches != 1 && shape.num_batches != batch) || (shape.num_heads != 1 && shape.num_heads != heads))
    refuse(where, "the mask has " + std::to_string(shape.num_batches) + " batches and " +
                      std::to_string(shape.num_heads) + " heads; it needs 1 or " + std::to_string(batch) +
                      ", and 1 or " + std::to_string(heads));
  if (!(in.scale >= 0) || !std::isfinite(in.scale)) refuse(where, "scale must be positive");
}

void check_run(const char* where, const Run& run, std::int64_t needed) {
  if (!is_supported(run.isa)) refuse(where, "this machine cannot run " + std::string(name_of(run.isa)));
  if (run.executor.num_threads() < 1) refuse(where, "the executor has no thread");
  if (static_cast<std::int64_t>(run.workspace.size()) < needed)
    refuse(where, "the workspace has " + std::to_string(run.workspace.size()) + " bytes; it needs " +
                      std::to_string(needed));
}

// ---- shared ----------------------------------------------------------------------------------------------------------

// Cuts the workspace into aligned pieces; with no workspace it only counts.
class Arena {
 public:
  explicit Arena(std::byte* begin = nullptr) : begin_(begin) {}
  template <class T>
  T* take(std::int64_t count) {
    const std::int64_t at = used_;
    used_ += (count * static_cast<std::int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    return begin_ == nullptr ? nullptr : reinterpret_cast<T*>(begin_ + at);
  }
  std::int64_t used() const { return used_ + kAlignment; }  // the workspace itself need not be aligned

 private:
  std::byte* begin_;
  std::int64_t used_ = 0;
};

std::byte* aligned(std::span<std::byte> workspace) {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  return workspace.data() + (kAlignment - address % kAlignment) % kAlignment;
}

// Calls body(index, thread) for 0 .. count - 1; whoever is free takes the next.
template <class Body>
void share_out(Executor& executor, std::int64_t count, const Body& body) {
  std::atomic<std::int64_t> next{0};
  executor.run([&](int thread) {
    for (std::int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
         i = next.fetch_add(1, std::memory_order_relaxed))
      body(i, thread);
  });
}

// Heads of one key/value head that go into a tile together.
struct HeadPacks {
  std::int64_t group = 1, at_once = 1;
  HeadPacks(const BlockMask& mask, std::int64_t heads, std::int64_t kv_heads) : group(heads / kv_heads) {
    at_once = mask.shape().num_heads > 1 ? 1 : std::min(group, detail::kMaxRows / mask.shape().tile_rows);
  }
  std::int64_t count() const { return (group + at_once - 1) / at_once; }
};

Tile tile_of(const BlockMask& mask, std::int64_t b, std::int64_t kv_head, std::int64_t head, std::int64_t num_heads,
             std::int64_t tile) {
  const std::span<const Segment> segments = mask.row(mask.plane(b, head), tile);
  return {.b = b,
          .kv_head = kv_head,
          .head = head,
          .num_heads = num_heads,
          .first_query = tile * mask.shape().tile_rows,
          .num_queries = mask.rows_in(tile),
          .tile_rows = mask.shape().tile_rows,
          .segments = segments.data(),
          .num_segments = static_cast<std::int64_t>(segments.size()),
          .bits = mask.all_bits()};
}

template <class T>
Problem<T> problem_of(const Inputs<T>& in) {
  Problem<T> p;
  p.num_queries = in.q.size[2];
  p.dim = in.q.size[3];
  p.num_context = in.context.k.size[2];
  p.scale = in.scale > 0 ? in.scale : 1.0f / std::sqrt(static_cast<float>(p.dim));
  p.q = in.q;
  p.k[0] = in.context.k, p.k[1] = in.block.k;
  p.v[0] = in.context.v, p.v[1] = in.block.v;
  p.kv_heads = in.context.k.size[1];
  return p;
}

// ---- pairs of keys for bf16 ------------------------------------------------------------------------------------------

template <class T>
bool uses_pairs(const detail::IsaKernels& kernels, std::int64_t dim) {
  return std::is_same_v<T, BFloat16> && kernels.pack_pairs != nullptr && dim % 16 == 0;
}

std::int64_t pairs_of(std::int64_t keys) { return (keys + 1) / 2; }

// Room for [B, Hkv, pairs, D] of both sources. Counted whatever the instruction set, so that one size serves all.
template <class T>
void take_pairs(Arena& arena, const Inputs<T>& in, std::uint32_t* (&pairs)[2]) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const std::int64_t planes = in.q.size[0] * in.context.k.size[1], dim = in.q.size[3];
    pairs[0] = arena.take<std::uint32_t>(planes * pairs_of(in.context.k.size[2]) * dim);
    pairs[1] = arena.take<std::uint32_t>(planes * pairs_of(in.block.k.size[2]) * dim);
  }
}

template <class T>
void fill_pairs(Executor& executor, const detail::IsaKernels& kernels, Problem<T>& problem,
                const View<const T> (&from)[2], std::uint32_t* (&pairs)[2]) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    constexpr std::int64_t kPiece = 256;  // pairs
    struct Piece {
      int source;
      std::int64_t b, h, begin, end;
    };
    std::vector<Piece> pieces;
    for (int source = 0; source < 2; ++source) {
      const std::int64_t count = pairs_of(from[source].size[2]);
      problem.pairs[source] = pairs[source];
      problem.pairs_stride[source] = count * problem.dim;
      for (std::int64_t b = 0; b < from[source].size[0]; ++b)
        for (std::int64_t h = 0; h < problem.kv_heads; ++h)
          for (std::int64_t i = 0; i < count; i += kPiece)
            pieces.push_back({source, b, h, i, std::min(count, i + kPiece)});
    }
    share_out(executor, static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i, int) {
      const Piece& piece = pieces[static_cast<std::size_t>(i)];
      kernels.pack_pairs(from[piece.source], piece.b, piece.h, piece.begin, piece.end,
                         pairs[piece.source] + (piece.b * problem.kv_heads + piece.h) * problem.pairs_stride[piece.source]);
    });
  }
}

template <class T>
ForwardTile<T> forward_kernel(const detail::IsaKernels& kernels) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.forward_f32;
  } else {
    return kernels.forward_bf16;
  }
}

template <class T>
BackwardTile<T> backward_kernel(const detail::IsaKernels& kernels) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.backward_f32;
  } else {
    return kernels.backward_bf16;
  }
}

// ---- forward ---------------------------------------------------------------------------------------------------------

template <class T>
struct ForwardSpace {
  std::vector<std::byte*> scratch;  // of each thread
  std::uint32_t* pairs[2] = {nullptr, nullptr};

  ForwardSpace(Arena& arena, const Inputs<T>& in, int num_threads) {
    take_pairs(arena, in, pairs);
    for (int thread = 0; thread < num_threads; ++thread)
      scratch.push_back(arena.take<std::byte>(detail::scratch_bytes(in.q.size[3])));
  }
};

// ---- backward --------------------------------------------------------------------------------------------------------

// fp32 gradients of a width that vectors divide are summed where they end up; others in fp32 rows of their own.
template <class T>
bool sums_in_place(std::int64_t dim) {
  return std::is_same_v<T, float> && dim % 16 == 0;
}

template <class T>
struct BackwardSpace {
  std::vector<std::byte*> scratch;      // of each thread
  std::vector<float*> thread_sums;      // of each thread: a whole component's
  std::vector<float*> chunk_sums;       // of chunks of a component that was cut; else null
  std::uint32_t* pairs[2] = {nullptr, nullptr};

  BackwardSpace(Arena& arena, const Inputs<T>& in, const BackwardPlan& plan, int num_threads) {
    const std::int64_t dim = in.q.size[3], row = 2 * padded(dim);  // dk and dv
    const bool in_place = sums_in_place<T>(dim);
    take_pairs(arena, in, pairs);
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < plan.chunks.size(); ++i) {
      const Chunk& chunk = plan.chunks[i];
      const auto component = static_cast<std::size_t>(chunk.component);
      const bool first = plan.first_chunk[component] == static_cast<std::int64_t>(i);
      const bool cut = plan.first_chunk[component + 1] - plan.first_chunk[component] > 1;
      if (!cut && !in_place) largest = std::max(largest, chunk.num_keys());
      chunk_sums.push_back(cut && !(in_place && first) ? arena.take<float>(chunk.num_keys() * row) : nullptr);
    }
    for (int thread = 0; thread < num_threads; ++thread) {
      scratch.push_back(arena.take<std::byte>(detail::scratch_bytes(dim)));
      thread_sums.push_back(arena.take<float>(largest * row));
    }
  }
};

template <class T>
class Backward {
 public:
  Backward(const Inputs<T>& in, const Saved<T>& saved, const Gradients<T>& grads, const BlockMask& mask,
           const BackwardPlan& plan, BackwardSpace<T>& space, const detail::IsaKernels& kernels, Executor& executor)
      : mask_(mask),
        plan_(plan),
        space_(space),
        kernels_(kernels),
        executor_(executor),
        problem_(problem_of(in)),
        packs_(mask, in.q.size[1], in.context.k.size[1]) {
    problem_.o_in = saved.o;
    problem_.d_o = saved.d_o;
    problem_.lse = {const_cast<float*>(saved.lse.data), saved.lse.size, saved.lse.stride};  // read only
    problem_.dq = grads.dq;
    dk_[0] = grads.context.k, dk_[1] = grads.block.k;
    dv_[0] = grads.context.v, dv_[1] = grads.block.v;
    width_ = padded(problem_.dim);
  }

  void operator()(const void* score) {
    if (uses_pairs<T>(kernels_, problem_.dim)) fill_pairs(executor_, kernels_, problem_, problem_.k, space_.pairs);
    clear();
    const BackwardTile<T> kernel = backward_kernel<T>(kernels_);
    share_out(executor_, static_cast<std::int64_t>(plan_.chunks.size()), [&](std::int64_t i, int thread) {
      run(plan_.by_work[static_cast<std::size_t>(i)], kernel, score, thread);
    });
    add_up();
  }

 private:
  // Gradients of all keys = 0.
  void clear() {
    constexpr std::int64_t kPiece = 512;
    for (int source = 0; source < 2; ++source) {
      const auto [batch, heads, keys, dim] = dk_[source].size;
      const std::int64_t pieces = (keys + kPiece - 1) / kPiece;
      share_out(executor_, batch * heads * pieces, [&, this](std::int64_t i, int) {
        const std::int64_t b = i / pieces / heads, h = i / pieces % heads, begin = i % pieces * kPiece;
        for (std::int64_t n = begin; n < std::min(keys, begin + kPiece); ++n) {
          std::fill_n(dk_[source].row(b, h, n), dim, T{});
          std::fill_n(dv_[source].row(b, h, n), dim, T{});
        }
      });
    }
  }

  // A chunk's own sums: [keys of both sources][dk, dv].
  KeyGradients own_sums(const Chunk& chunk, float* sums) const {
    KeyGradients out;
    for (int source = 0; source < 2; ++source) {
      const std::int64_t before = source == 0 ? 0 : chunk.keys[0].size();
      out.dk[source] = sums + before * 2 * width_;
      out.dv[source] = out.dk[source] + width_;
      out.dk_stride[source] = out.dv_stride[source] = 2 * width_;
      out.begin[source] = chunk.keys[source].begin;
    }
    return out;
  }
  KeyGradients in_place(const Chunk& chunk) const {
    KeyGradients out;
    if constexpr (std::is_same_v<T, float>) {
      for (int source = 0; source < 2; ++source) {
        out.dk[source] = dk_[source].row(chunk.b, chunk.kv_head, 0);
        out.dv[source] = dv_[source].row(chunk.b, chunk.kv_head, 0);
        out.dk_stride[source] = dk_[source].stride[2];
        out.dv_stride[source] = dv_[source].stride[2];
      }
    }
    return out;
  }

  void run(std::int64_t index, BackwardTile<T> kernel, const void* score, int thread) {
    const Chunk& chunk = plan_.chunks[static_cast<std::size_t>(index)];
    float* sums = space_.chunk_sums[static_cast<std::size_t>(index)];
    const bool whole_component = sums == nullptr && !sums_in_place<T>(problem_.dim);
    if (whole_component) sums = space_.thread_sums[static_cast<std::size_t>(thread)];
    if (sums != nullptr)
      std::memset(sums, 0, static_cast<std::size_t>(chunk.num_keys() * 2 * width_) * sizeof(float));
    const KeyGradients sink = sums != nullptr ? own_sums(chunk, sums) : in_place(chunk);
    const std::int64_t first_head = chunk.kv_head * packs_.group;
    const bool own_masks = mask_.shape().num_heads > 1;
    for (const detail::PlanTile& planned : chunk.tiles) {
      for (std::int64_t pack = 0; pack < (own_masks ? 1 : packs_.count()); ++pack) {
        const std::int64_t head = first_head + (own_masks ? planned.head : pack * packs_.at_once);
        const std::int64_t heads = own_masks ? 1 : std::min(packs_.at_once, first_head + packs_.group - head);
        const Tile tile = tile_of(mask_, chunk.b, chunk.kv_head, head, heads, planned.tile);
        kernel(problem_, tile, score, sink, space_.scratch[static_cast<std::size_t>(thread)]);
      }
    }
    if (whole_component) {
      for (int source = 0; source < 2; ++source)
        add_rows(source, chunk.keys[source], index, index + 1, sums);
    }
  }

  // Rows of a source = their value so far (in place) + the sums of chunks first .. end - 1, in order.
  void add_rows(int source, const KeySpan& span, std::int64_t first, std::int64_t end, float* only_sums) {
    const Chunk& any = plan_.chunks[static_cast<std::size_t>(first)];
    const bool continues = sums_in_place<T>(problem_.dim);
    std::vector<float> row(static_cast<std::size_t>(2 * width_));
    for (std::int64_t n = span.begin; n < span.end; ++n) {
      T *dk = dk_[source].row(any.b, any.kv_head, n), *dv = dv_[source].row(any.b, any.kv_head, n);
      std::fill(row.begin(), row.end(), 0.0f);
      if constexpr (std::is_same_v<T, float>) {
        if (continues)
          for (std::int64_t d = 0; d < problem_.dim; ++d) row[d] = dk[d], row[width_ + d] = dv[d];
      }
      for (std::int64_t i = first; i < end; ++i) {
        const Chunk& chunk = plan_.chunks[static_cast<std::size_t>(i)];
        if (n < chunk.keys[source].begin || n >= chunk.keys[source].end) continue;
        float* sums = only_sums != nullptr ? only_sums : space_.chunk_sums[static_cast<std::size_t>(i)];
        if (sums == nullptr) continue;
        const float* from = own_sums(chunk, sums).dk[source] + (n - chunk.keys[source].begin) * 2 * width_;
        for (std::int64_t d = 0; d < 2 * width_; ++d) row[d] += from[d];
      }
      write(row.data(), dk);
      write(row.data() + width_, dv);
    }
  }

  void write(const float* from, T* to) const {
    if constexpr (std::is_same_v<T, float>) {
      std::copy_n(from, problem_.dim, to);
    } else {
      kernels_.narrow_row(from, to, problem_.dim);
    }
  }

  // Components that were cut.
  void add_up() {
    constexpr std::int64_t kPiece = 128;  // keys
    struct Piece {
      int source;
      KeySpan span;
      std::int64_t first, end;
    };
    std::vector<Piece> pieces;
    for (std::size_t c = 0; c + 1 < plan_.first_chunk.size(); ++c) {
      const std::int64_t first = plan_.first_chunk[c], end = plan_.first_chunk[c + 1];
      if (end - first < 2) continue;
      for (int source = 0; source < 2; ++source) {
        std::int64_t low = -1, high = 0;
        for (std::int64_t i = first; i < end; ++i) {
          const KeySpan& span = plan_.chunks[static_cast<std::size_t>(i)].keys[source];
          if (span.size() == 0) continue;
          low = low < 0 ? span.begin : std::min(low, span.begin);
          high = std::max(high, span.end);
        }
        for (std::int64_t n = low; low >= 0 && n < high; n += kPiece)
          pieces.push_back({source, {n, std::min(high, n + kPiece)}, first, end});
      }
    }
    share_out(executor_, static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i, int) {
      const Piece& piece = pieces[static_cast<std::size_t>(i)];
      add_rows(piece.source, piece.span, piece.first, piece.end, nullptr);
    });
  }

  const BlockMask& mask_;
  const BackwardPlan& plan_;
  BackwardSpace<T>& space_;
  const detail::IsaKernels& kernels_;
  Executor& executor_;
  Problem<T> problem_;
  const HeadPacks packs_;
  View<T> dk_[2], dv_[2];
  std::int64_t width_ = 0;
};

template <class T>
BackwardPlan plan_for(const Inputs<T>& in, const BlockMask& mask) {
  const std::int64_t kv_heads = in.context.k.size[1];
  return detail::plan_backward(mask, in.q.size[0], kv_heads, in.q.size[1] / kv_heads);
}

}  // namespace

template <class T>
std::int64_t forward_workspace(const Inputs<T>& in, const BlockMask& mask, int num_threads) {
  check_inputs("forward", in, mask);
  Arena arena;
  ForwardSpace<T>(arena, in, num_threads);
  return arena.used();
}

template <class T>
std::int64_t backward_workspace(const Inputs<T>& in, const BlockMask& mask, int num_threads) {
  check_inputs("backward", in, mask);
  Arena arena;
  BackwardSpace<T>(arena, in, plan_for(in, mask), num_threads);
  return arena.used();
}

namespace detail {

template <class T>
void forward(const Inputs<T>& in, const Outputs<T>& out, const BlockMask& mask, const KernelTable& kernels,
             const void* score, const Run& run) {
  const std::int64_t needed = forward_workspace(in, mask, run.executor.num_threads());
  check_tensor("forward", "o", out.o, in.q.size);
  check_tensor("forward", "lse", out.lse, {in.q.size[0], in.q.size[1], in.q.size[2], 1});
  check_run("forward", run, needed);
  Arena arena(aligned(run.workspace));
  ForwardSpace<T> space(arena, in, run.executor.num_threads());
  Problem<T> problem = problem_of(in);
  problem.o = out.o;
  problem.lse = out.lse;
  const IsaKernels& isa = kernels.by_isa[static_cast<int>(run.isa)];
  if (uses_pairs<T>(isa, problem.dim)) fill_pairs(run.executor, isa, problem, problem.v, space.pairs);
  const HeadPacks packs(mask, in.q.size[1], problem.kv_heads);
  const std::int64_t tiles = mask.num_tiles(), count = packs.count();
  const ForwardTile<T> kernel = forward_kernel<T>(isa);
  share_out(run.executor, in.q.size[0] * problem.kv_heads * count * tiles, [&](std::int64_t i, int thread) {
    // The last tiles first: under most masks they see the most keys.
    const std::int64_t tile = tiles - 1 - i % tiles, pack = i / tiles % count,
                       kv_head = i / tiles / count % problem.kv_heads, b = i / tiles / count / problem.kv_heads;
    const std::int64_t first_head = kv_head * packs.group, head = first_head + pack * packs.at_once;
    kernel(problem,
           tile_of(mask, b, kv_head, head, std::min(packs.at_once, first_head + packs.group - head), tile), score,
           space.scratch[static_cast<std::size_t>(thread)]);
  });
}

template <class T>
void backward(const Inputs<T>& in, const Saved<T>& saved, const Gradients<T>& grads, const BlockMask& mask,
              const KernelTable& kernels, const void* score, const Run& run) {
  check_inputs("backward", in, mask);
  check_tensor("backward", "o", saved.o, in.q.size);
  check_tensor("backward", "dO", saved.d_o, in.q.size);
  check_tensor("backward", "lse", saved.lse, {in.q.size[0], in.q.size[1], in.q.size[2], 1});
  check_tensor("backward", "dq", grads.dq, in.q.size);
  check_tensor("backward", "context dk", grads.context.k, in.context.k.size);
  check_tensor("backward", "context dv", grads.context.v, in.context.k.size);
  check_tensor("backward", "block dk", grads.block.k, in.block.k.size);
  check_tensor("backward", "block dv", grads.block.v, in.block.k.size);
  const BackwardPlan plan = plan_for(in, mask);
  Arena counted;
  BackwardSpace<T>(counted, in, plan, run.executor.num_threads());
  check_run("backward", run, counted.used());
  Arena arena(aligned(run.workspace));
  BackwardSpace<T> space(arena, in, plan, run.executor.num_threads());
  Backward<T>(in, saved, grads, mask, plan, space, kernels.by_isa[static_cast<int>(run.isa)], run.executor)(score);
}

template void forward<float>(const Inputs<float>&, const Outputs<float>&, const BlockMask&, const KernelTable&,
                             const void*, const Run&);
template void forward<BFloat16>(const Inputs<BFloat16>&, const Outputs<BFloat16>&, const BlockMask&,
                                const KernelTable&, const void*, const Run&);
template void backward<float>(const Inputs<float>&, const Saved<float>&, const Gradients<float>&, const BlockMask&,
                              const KernelTable&, const void*, const Run&);
template void backward<BFloat16>(const Inputs<BFloat16>&, const Saved<BFloat16>&, const Gradients<BFloat16>&,
                                 const BlockMask&, const KernelTable&, const void*, const Run&);

}  // namespace detail

template std::int64_t forward_workspace<float>(const Inputs<float>&, const BlockMask&, int);
template std::int64_t forward_workspace<BFloat16>(const Inputs<BFloat16>&, const BlockMask&, int);
template std::int64_t backward_workspace<float>(const Inputs<float>&, const BlockMask&, int);
template std::int64_t backward_workspace<BFloat16>(const Inputs<BFloat16>&, const BlockMask&, int);

}  // namespace flex
