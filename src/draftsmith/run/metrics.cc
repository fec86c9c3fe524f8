#include "draftsmith/run/metrics.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "draftsmith/base/check.h"
#include "draftsmith/store/files.h"

namespace draftsmith {
namespace {

using Json = nlohmann::ordered_json;

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

// The lines of an earlier session up to `done_steps`; a line torn by a crash is no line.
std::string kept_lines(const std::filesystem::path& file, std::int64_t done_steps) {
  if (done_steps <= 0 || !std::filesystem::exists(file)) return "";
  std::istringstream in(read_text_file(file));
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const Json object = Json::parse(line, nullptr, false);
    const bool whole = object.is_object() && object.contains("step") && object["step"].is_number_integer();
    if (whole && object["step"].get<std::int64_t>() <= done_steps) kept += line + '\n';
  }
  return kept;
}

void add_figures(Json& line, std::vector<EventWriter::Scalar>& scalars, const Figures& figures,
                 const std::string& prefix, const std::string& group) {
  const auto put = [&](const char* name, double value) {
    line[prefix + name] = value;
    scalars.emplace_back(group + name, value);
  };
  put("loss", figures.loss);
  put("accuracy", figures.accuracy);
  put("accepted_length", figures.accepted_length);
  line[prefix + "accuracy_per_slot"] = figures.accuracy_per_slot;
  for (std::size_t j = 0; j < figures.accuracy_per_slot.size(); ++j)
    scalars.emplace_back(text_of(group, "accuracy_slot_", j + 1), figures.accuracy_per_slot[j]);
}

}  // namespace

Figures figures_of(const LossSums& sums) {
  Figures out;
  out.loss = ratio(sums.loss_sum, sums.weight_sum);
  out.accuracy = ratio(sums.correct_sum, sums.mask_sum);
  for (std::size_t j = 1; j < sums.slot_mask.size(); ++j)
    out.accuracy_per_slot.push_back(ratio(sums.slot_correct[j], sums.slot_mask[j]));
  out.accepted_length = sums.num_blocks > 0 ? sums.accepted_sum / sums.num_blocks + 1 : 0;
  out.weight_sum = sums.weight_sum;
  return out;
}

MetricsLog::MetricsLog(const std::filesystem::path& output, std::int64_t done_steps)
    : file_(output / "metrics.jsonl"), events_(output / "tensorboard", done_steps > 0 ? done_steps + 1 : 0) {
  write_text_file(file_, kept_lines(file_, done_steps));
  out_.open(file_, std::ios::binary | std::ios::app);
  require(out_.good(), "cannot open ", file_.string(), " for writing");
}

void MetricsLog::add(const TrainLine& line) {
  Json object;
  std::vector<EventWriter::Scalar> scalars;
  object["step"] = line.step;
  object["epoch"] = line.epoch;
  add_figures(object, scalars, line.figures, "", "train/");
  const auto put = [&](const char* name, double value) {
    object[name] = value;
    scalars.emplace_back(text_of("train/", name), value);
  };
  put("learning_rate", line.learning_rate);
  put("grad_norm", line.grad_norm);
  put("tokens_per_second", line.tokens_per_second);
  object["seconds"] = line.seconds;
  object["weight_sum"] = line.figures.weight_sum;
  write(object.dump());
  events_.add(line.step, scalars);
}

void MetricsLog::add(const EvalLine& line) {
  Json object;
  std::vector<EventWriter::Scalar> scalars;
  object["step"] = line.step;
  add_figures(object, scalars, line.figures, "eval_", "eval/");
  object["seconds"] = line.seconds;
  write(object.dump());
  events_.add(line.step, scalars);
}

void MetricsLog::write(const std::string& line) {
  out_ << line << '\n' << std::flush;
  require(out_.good(), "cannot write ", file_.string(), "; is the disk full?");
}

}  // namespace draftsmith
