// Units of backward run side by side (plan.h); gradients of keys and values are summed where they end up or in fp32
// rows of the unit, and the parts of a component that was cut are added in order.
#include <algorithm>
#include <cstring>
#include <vector>

#include "flex/cpu/launch.h"
#include "flex/cpu/plan.h"

namespace flex {
namespace {

using namespace detail;

template <class T>
BackwardTile<T> backward_kernel(const IsaKernels& kernels) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.backward_f32;
  } else {
    return kernels.backward_bf16;
  }
}

// fp32 gradients of a width that vectors divide are summed where they end up; others are summed in fp32 rows of their
// own.
template <class T>
bool sums_in_place(std::int64_t dim) {
  return std::is_same_v<T, float> && dim % 16 == 0;
}

template <class T>
struct BackwardSpace {
  std::vector<std::byte*> scratch;  // of each thread
  std::vector<float*> thread_sums;  // of each thread: a whole component's
  std::vector<float*> chunk_sums;   // of chunks of a component that was cut; else null
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
      scratch.push_back(arena.take<std::byte>(scratch_bytes(dim)));
      thread_sums.push_back(arena.take<float>(largest * row));
    }
  }
};

template <class T>
class Backward {
 public:
  Backward(const Inputs<T>& in, const Saved<T>& saved, const Gradients<T>& grads, const BlockMask& mask,
           const BackwardPlan& plan, BackwardSpace<T>& space, const IsaKernels& kernels, Executor& executor)
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
  // Sets the gradients of all keys to 0.
  void clear() {
    constexpr std::int64_t kPiece = 512;
    for (int source = 0; source < 2; ++source) {
      const auto& size = dk_[source].size;
      const std::int64_t batch = size[0], heads = size[1], keys = size[2], dim = size[3];
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

  // Returns a chunk's own sums, [keys of both sources][dk, dv].
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
    if (sums != nullptr) std::memset(sums, 0, static_cast<std::size_t>(chunk.num_keys() * 2 * width_) * sizeof(float));
    const KeyGradients sink = sums != nullptr ? own_sums(chunk, sums) : in_place(chunk);
    const std::int64_t first_head = chunk.kv_head * packs_.group;
    const bool own_masks = mask_.shape().num_heads > 1;
    for (const PlanTile& planned : chunk.tiles) {
      for (std::int64_t pack = 0; pack < (own_masks ? 1 : packs_.count()); ++pack) {
        const std::int64_t head = first_head + (own_masks ? planned.head : pack * packs_.at_once);
        const std::int64_t heads = own_masks ? 1 : std::min(packs_.at_once, first_head + packs_.group - head);
        const Tile tile = tile_of(mask_, chunk.b, chunk.kv_head, head, heads, planned.tile);
        kernel(problem_, tile, score, sink, space_.scratch[static_cast<std::size_t>(thread)]);
      }
    }
    if (whole_component) {
      for (int source = 0; source < 2; ++source) add_rows(source, chunk.keys[source], index, index + 1, sums);
    }
  }

  // Makes rows of a source the sum, in order, of their value so far (in place) and of chunks first .. end - 1.
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

  // Adds up the components that were cut.
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
  const IsaKernels& kernels_;
  Executor& executor_;
  Problem<T> problem_;
  const HeadPacks packs_;
  View<T> dk_[2], dv_[2];
  std::int64_t width_ = 0;
};

template <class T>
BackwardPlan plan_for(const Inputs<T>& in, const BlockMask& mask) {
  const std::int64_t kv_heads = in.context.k.size[1];
  return plan_backward(mask, in.q.size[0], kv_heads, in.q.size[1] / kv_heads);
}

template <class T>
std::int64_t bytes_for(const Inputs<T>& in, const BackwardPlan& plan, int num_threads) {
  Arena arena;
  const BackwardSpace<T> counted(arena, in, plan, num_threads);
  return arena.used();
}

template <class T>
void run_backward(const Inputs<T>& in, const Saved<T>& saved, const Gradients<T>& grads, const BlockMask& mask,
                  const AnyScore& score, const CpuCall& call) {
  const BackwardPlan plan = plan_for(in, mask);
  check_call("backward", call, bytes_for(in, plan, call.executor.num_threads()));
  Arena arena(aligned(call.workspace));
  BackwardSpace<T> space(arena, in, plan, call.executor.num_threads());
  Backward<T>(in, saved, grads, mask, plan, space, score.compiled.cpu[static_cast<int>(call.isa)],
              call.executor)(score.score);
}

}  // namespace

template <class T>
std::int64_t backward_workspace(const Inputs<T>& in, const BlockMask& mask, int num_threads) {
  check_inputs("backward", in, mask);
  return bytes_for(in, plan_for(in, mask), num_threads);
}

template std::int64_t backward_workspace<float>(const Inputs<float>&, const BlockMask&, int);
template std::int64_t backward_workspace<BFloat16>(const Inputs<BFloat16>&, const BlockMask&, int);

void CpuCall::backward(const Inputs<float>& in, const Saved<float>& saved, const Gradients<float>& grads,
                       const BlockMask& mask, const AnyScore& score) const {
  run_backward(in, saved, grads, mask, score, *this);
}
void CpuCall::backward(const Inputs<BFloat16>& in, const Saved<BFloat16>& saved, const Gradients<BFloat16>& grads,
                       const BlockMask& mask, const AnyScore& score) const {
  run_backward(in, saved, grads, mask, score, *this);
}

}  // namespace flex
