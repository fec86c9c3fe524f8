#include "draftsmith/run/start.h"

#include "draftsmith/base/check.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/draft/families.h"
#include "draftsmith/model/layer_names.h"

namespace draftsmith {

std::unique_ptr<Drafter> starting_drafter(const RunConfig& config, const DrafterConfig& shape, Target& target,
                                          const NoticeFn& notice) {
  const DraftInit& init = config.draft.init;
  Rng rng(config.seed, RngPurpose::kInit);
  if (init.kind != DraftInit::Kind::kFolder) {
    std::unique_ptr<Drafter> drafter = empty_drafter(shape, place_of(config.train.compute));
    drafter->start_random(rng, target.head());
    if (init.kind == DraftInit::Kind::kTarget)
      drafter->start_from_target([&](const DecoderWeight& weight) { return target.weight(weight); });
    return drafter;
  }
  const LoadedDrafter loaded = read_drafter_folder(init.path, place_of(config.train.compute));
  const DrafterDifference difference = first_difference(shape, loaded.config(), MayDiffer::kBlockAndVocabulary);
  require(difference.key.empty(), "draft.init: the drafter in ", init.path, " has ", difference.key, " = ",
          difference.second, " but this run has ", difference.first, "; set draft.", difference.key,
          " to what the drafter has");
  for (const LayerKind kind : shape.layer_kinds)
    require(shape.causal_in_block(kind) == loaded.config().causal_in_block(kind), "draft.init: the drafter in ",
            init.path,
            " sets is_causal in its config.json, and no recipe can ask for that; start from another drafter");
  if (loaded.config().block_size != shape.block_size && notice)
    notice(text_of("the drafter in ", init.path, " was trained with block size ", loaded.config().block_size,
                   ", this run uses ", shape.block_size));
  return with_config(*loaded.drafter, shape);
}

}  // namespace draftsmith
