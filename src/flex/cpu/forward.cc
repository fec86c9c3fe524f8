// Tiles of queries run side by side, each on whichever thread is free.
#include "flex/cpu/launch.h"

namespace flex {
namespace {

using namespace detail;

template <class T>
ForwardTile<T> forward_kernel(const IsaKernels& kernels) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.forward_f32;
  } else {
    return kernels.forward_bf16;
  }
}

template <class T>
struct ForwardSpace {
  std::vector<std::byte*> scratch;  // of each thread
  std::uint32_t* pairs[2] = {nullptr, nullptr};

  ForwardSpace(Arena& arena, const Inputs<T>& in, int num_threads) {
    take_pairs(arena, in, pairs);
    for (int thread = 0; thread < num_threads; ++thread)
      scratch.push_back(arena.take<std::byte>(scratch_bytes(in.q.size[3])));
  }
};

template <class T>
std::int64_t bytes_for(const Inputs<T>& in, int num_threads) {
  Arena arena;
  const ForwardSpace<T> counted(arena, in, num_threads);
  return arena.used();
}

template <class T>
void run_forward(const Inputs<T>& in, const Outputs<T>& out, const BlockMask& mask, const AnyScore& score,
                 const CpuCall& call) {
  check_call("forward", call, bytes_for(in, call.executor.num_threads()));
  Arena arena(aligned(call.workspace));
  ForwardSpace<T> space(arena, in, call.executor.num_threads());
  Problem<T> problem = problem_of(in);
  problem.o = out.o;
  problem.lse = out.lse;
  const IsaKernels& isa = score.compiled.cpu[static_cast<int>(call.isa)];
  if (uses_pairs<T>(isa, problem.dim)) fill_pairs(call.executor, isa, problem, problem.v, space.pairs);
  const HeadPacks packs(mask, in.q.size[1], problem.kv_heads);
  const std::int64_t tiles = mask.num_tiles(), count = packs.count();
  const ForwardTile<T> kernel = forward_kernel<T>(isa);
  share_out(call.executor, in.q.size[0] * problem.kv_heads * count * tiles, [&](std::int64_t i, int thread) {
    // The last tiles come first, because under most masks they see the most keys.
    const std::int64_t tile = tiles - 1 - i % tiles, pack = i / tiles % count,
                       kv_head = i / tiles / count % problem.kv_heads, b = i / tiles / count / problem.kv_heads;
    const std::int64_t first_head = kv_head * packs.group, head = first_head + pack * packs.at_once;
    kernel(problem, tile_of(mask, b, kv_head, head, std::min(packs.at_once, first_head + packs.group - head), tile),
           score.score, space.scratch[static_cast<std::size_t>(thread)]);
  });
}

}  // namespace

template <class T>
std::int64_t forward_workspace(const Inputs<T>& in, const BlockMask& mask, int num_threads) {
  check_inputs("forward", in, mask);
  return bytes_for(in, num_threads);
}

template std::int64_t forward_workspace<float>(const Inputs<float>&, const BlockMask&, int);
template std::int64_t forward_workspace<BFloat16>(const Inputs<BFloat16>&, const BlockMask&, int);

void CpuCall::forward(const Inputs<float>& in, const Outputs<float>& out, const BlockMask& mask,
                      const AnyScore& score) const {
  run_forward(in, out, mask, score, *this);
}
void CpuCall::forward(const Inputs<BFloat16>& in, const Outputs<BFloat16>& out, const BlockMask& mask,
                      const AnyScore& score) const {
  run_forward(in, out, mask, score, *this);
}

}  // namespace flex
