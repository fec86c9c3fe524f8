#include "draftsmith/run/resume.h"

#include <map>
#include <set>
#include <string_view>
#include <type_traits>
#include <vector>

#include "draftsmith/base/check.h"
#include "draftsmith/base/words.h"
#include "draftsmith/config/yaml.h"
#include "draftsmith/store/sha256.h"

namespace draftsmith {
namespace {

std::map<std::string, std::string> values_of(const RunConfig& config) {
  std::map<std::string, std::string> out;
  visit_fields(config, [&](const std::string& section, const std::string& key, const auto& value, const char*) {
    std::string& text = out[section.empty() ? key : section + "." + key];
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, DraftInit>)
      text = name_of(value);
    else
      text = value_text(value);
  });
  return out;
}

// Rows, anchors and their grouping into steps follow from these.
const std::set<std::string> kFixed = {"seed",
                                      "data.max_length",
                                      "train.row_length",
                                      "train.anchors_per_document",
                                      "train.anchors_per_pack",
                                      "train.accumulation"};
// These change nothing that training computes, or are compared by what they stand for (data by digest, drafter by
// shape).
const std::set<std::string> kFree = {"output",
                                     "data.path",
                                     "model.path",
                                     "model.vocab_size",
                                     "model.num_layers",
                                     "train.save_every",
                                     "train.keep_checkpoints",
                                     "train.log_every",
                                     "train.eval_every",
                                     "train.recompute",
                                     "train.feature_cache_mb",
                                     "train.feature_disk_mb",
                                     "eval.prompts",
                                     "eval.max_new_tokens"};
const std::set<std::string> kDecideSteps = {"train.epochs", "train.max_steps", "train.max_minutes"};

template <class T>
void view(Sha256& sha, const std::vector<T>& values) {
  sha.add(text_of(values.size(), ';'));
  sha.add(std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
}

}  // namespace

std::string digest_of(const DataSet& data) {
  Sha256 sha;
  view(sha, data.token_ids);
  view(sha, data.loss_mask);
  view(sha, data.document_offsets);
  return sha.hex();
}

bool check_resume(const ResumeCheck& check, const NoticeFn& notice) {
  const std::string where = check.checkpoint.string();
  const TrainState& state = check.state;
  const auto refuse = [&](const std::string& key, const std::string& now, const std::string& then) {
    fail("cannot resume from ", where, ": ", key, " is ", now, " now and was ", then,
         " there; give the old value, or train in another `output` without --resume");
  };
  if (state.target != check.target) refuse("the target (model.path)", check.target, state.target);
  if (state.tokenizer_digest != check.data.tokenizer_digest)
    fail("cannot resume from ", where,
         ": data.path holds data of another tokenizer than the run was started with; give the old data, or train in "
         "another `output` without --resume");
  if (state.data_digest != digest_of(check.data))
    fail("cannot resume from ", where, ": the training documents of data.path (", check.config.data.path,
         ") are not those the run was started with; give the old data, or train in another `output` without --resume");
  const DrafterDifference difference = first_difference(check.drafter, check.stored_drafter, MayDiffer::kNothing);
  if (!difference.key.empty()) refuse("draft." + difference.key, difference.first, difference.second);

  const std::map<std::string, std::string> now = values_of(check.config);
  const std::map<std::string, std::string> then =
      values_of(run_config_from_yaml(state.config, where + "/state.json", {}));
  bool same_steps = true;
  for (const auto& [key, value] : now) {
    const std::string& old = then.at(key);
    if (value == old || kFree.contains(key) || key.starts_with("draft.")) continue;
    if (kFixed.contains(key)) refuse(key, value, old);
    if (kDecideSteps.contains(key)) same_steps = false;
    if (notice) notice(text_of("resuming with ", key, " = ", value, "; it was ", old));
  }
  return same_steps;
}

}  // namespace draftsmith
