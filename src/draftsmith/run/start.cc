#include "draftsmith/run/start.h"

#include "draftsmith/base/check.h"
#include "draftsmith/draft/dflash/init.h"
#include "draftsmith/model/layer_names.h"
#include "draftsmith/run/resume.h"

namespace draftsmith {

DrafterParams starting_params(const RunConfig& config, const DrafterConfig& drafter, Target& target,
                              const NoticeFn& notice) {
  const std::string& init = config.draft.init;
  Rng rng(config.seed, RngPurpose::kInit);
  if (init == "random" || init == "target") {
    DrafterParams params = empty_params(drafter);
    init_random(params, rng);
    fit_final_norm(params, target.head());
    if (init == "target")
      init_from_target(params, drafter, [&](const DecoderWeight& weight) { return target.weight(weight); });
    return params;
  }
  LoadedDrafter loaded = read_drafter_folder(init);
  const DrafterDifference difference = first_difference(drafter, loaded.config, MayDiffer::kBlockAndVocabulary);
  require(difference.key.empty(), "draft.init: the drafter in ", init, " has ", difference.key, " = ",
          difference.second, " but this run has ", difference.first, "; set draft.", difference.key,
          " to what the drafter has");
  if (loaded.config.block_size != drafter.block_size && notice)
    notice(text_of("the drafter in ", init, " was trained with block size ", loaded.config.block_size,
                   ", this run uses ", drafter.block_size));
  return std::move(loaded.params);
}

}  // namespace draftsmith
