#include "flex/attention.h"
#include "flex/door.h"
#include "flex/launch.h"

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

}  // namespace

template <class T>
std::int64_t forward_workspace(const Inputs<T>& in, const BlockMask& mask, int num_threads) {
  check_inputs("forward", in, mask);
  Arena arena;
  ForwardSpace<T>(arena, in, num_threads);
  return arena.used();
}

template std::int64_t forward_workspace<float>(const Inputs<float>&, const BlockMask&, int);
template std::int64_t forward_workspace<BFloat16>(const Inputs<BFloat16>&, const BlockMask&, int);

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
    kernel(problem, tile_of(mask, b, kv_head, head, std::min(packs.at_once, first_head + packs.group - head), tile),
           score, space.scratch[static_cast<std::size_t>(thread)]);
  });
}

template void forward<float>(const Inputs<float>&, const Outputs<float>&, const BlockMask&, const KernelTable&,
                             const void*, const flex::Run&);
template void forward<BFloat16>(const Inputs<BFloat16>&, const Outputs<BFloat16>&, const BlockMask&, const KernelTable&,
                                const void*, const flex::Run&);

}  // namespace detail
}  // namespace flex
