#include "draftsmith/run/checkpoint.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/tensor_io.h"
#include "draftsmith/store/files.h"
#include "draftsmith/store/safetensors.h"

namespace draftsmith {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kState = "state.json";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kModel = "model.safetensors";

// Names every field of the state once, for writing and reading.
template <class State, class Visit>
void visit_state(State& s, Visit visit) {
  visit("step", s.step);
  visit("total_steps", s.total_steps);
  visit("warmup", s.warmup);
  visit("epoch", s.epoch);
  visit("row", s.pack);
  visit("tokens", s.tokens);
  visit("seconds", s.seconds);
  visit("seed", s.seed);
  visit("data_digest", s.data_digest);
  visit("tokenizer_digest", s.tokenizer_digest);
  visit("target", s.target);
  visit("config", s.config);
}

std::string state_to_json(const TrainState& state) {
  Json out;
  visit_state(state, [&](const char* name, const auto& value) { out[name] = value; });
  return out.dump(2) + '\n';
}

// step-000200 -> 200; -1 for any other name, so that left-over temporaries are no checkpoints.
std::int64_t step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const std::string prefix = "step-";
  if (!name.starts_with(prefix) || name.size() < prefix.size() + 6 || name.size() > prefix.size() + 15) return -1;
  const std::string digits = name.substr(prefix.size());
  if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) return -1;
  return std::stoll(digits);
}

// Step -> folder of everything that is named as a checkpoint.
std::map<std::int64_t, fs::path> checkpoints_in(const fs::path& output) {
  std::map<std::int64_t, fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(output / "checkpoints", error)) {
    std::error_code ignored;
    if (step_of(entry.path()) >= 0 && entry.is_directory(ignored)) found[step_of(entry.path())] = entry.path();
  }
  return found;
}

// "" when the folder can be resumed from as far as its files' own structure tells, else why not.
std::string what_is_wrong(const fs::path& folder) {
  try {
    read_train_state(folder);
    const SafetensorsFile model(folder / kModel), optimizer(folder / kOptimizer);
    const fs::path config = folder / "config.json";
    drafter_config_from_json(read_text_file(config), config.string());
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

std::vector<TensorToWrite> pieces(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorToWrite> out;
  out.reserve(tensors.size());
  for (const NamedTensor& entry : tensors) out.push_back(tensor_to_write(entry.name, entry.tensor));
  return out;
}

}  // namespace

fs::path checkpoint_folder(const fs::path& output, std::int64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, digits.size() < 6 ? 6 - digits.size() : 0, '0');
  return output / "checkpoints" / ("step-" + digits);
}

fs::path save_checkpoint(const fs::path& output, const CheckpointParts& parts, std::int64_t keep) {
  fs::path folder = checkpoint_folder(output, parts.state.step);
  std::vector<NamedTensor> masters;
  for (const Param& param : parts.drafter.params()) masters.push_back({param.name, param.tensor.detach()});
  if (!parts.vocab.whole()) masters.push_back({kDraftVocabTensor, draft_vocab_to_offsets(parts.vocab)});
  const std::vector<NamedTensor> moments = parts.optimizer.state();
  write_folder(folder, [&](const fs::path& temporary) {
    write_text_file(temporary / "config.json", drafter_config_to_json(parts.drafter.config(), "float32"));
    write_safetensors(temporary / kModel, pieces(masters), {{"format", "pt"}});
    write_safetensors(temporary / kOptimizer, pieces(moments), {{"step", std::to_string(parts.state.step)}});
    write_text_file(temporary / kState, state_to_json(parts.state));
  });
  std::map<std::int64_t, fs::path> all = checkpoints_in(output);
  while (static_cast<std::int64_t>(all.size()) > std::max<std::int64_t>(keep, 1)) {
    const auto oldest = all.begin()->second == folder ? std::next(all.begin()) : all.begin();
    std::error_code ignored;  // an old checkpoint that stays does no harm
    fs::remove_all(oldest->second, ignored);
    all.erase(oldest);
  }
  return folder;
}

std::optional<fs::path> latest_checkpoint(const fs::path& output, const NoticeFn& notice) {
  const std::map<std::int64_t, fs::path> all = checkpoints_in(output);
  for (auto entry = all.rbegin(); entry != all.rend(); ++entry) {
    const std::string wrong = what_is_wrong(entry->second);
    if (wrong.empty()) return entry->second;
    if (notice) notice(text_of("passing over ", entry->second.string(), ", which is not a whole checkpoint: ", wrong));
  }
  return std::nullopt;
}

TrainState read_train_state(const fs::path& checkpoint) {
  const fs::path file = checkpoint / kState;
  const Json json = Json::parse(read_text_file(file, std::size_t{16} << 20), nullptr, false);
  require(json.is_object(), file.string(), " is not a JSON object");
  TrainState state;
  visit_state(state, [&](const char* name, auto& value) {
    require(json.contains(name), file.string(), " has no key \"", name, '"');
    try {
      value = json[name].template get<std::decay_t<decltype(value)>>();
    } catch (const nlohmann::json::exception&) {
      fail(file.string(), ": the value of \"", name, "\" is of another type");
    }
  });
  require(state.step >= 0 && state.total_steps >= 0, file.string(), ": \"step\" or \"total_steps\" is negative");
  return state;
}

void read_optimizer(const fs::path& checkpoint, const TrainState& state, Optimizer& optimizer) {
  const SafetensorsFile file(checkpoint / kOptimizer);
  for (const NamedTensor& entry : optimizer.state())
    entry.tensor.copy_(float_tensor_from_safetensors(file, entry.name, entry.tensor.sizes().vec()));
  optimizer.set_num_steps(state.step);
}

}  // namespace draftsmith
