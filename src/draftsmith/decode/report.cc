#include "draftsmith/decode/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace draftsmith {
namespace {

const char* name_of(Comparison comparison) {
  static constexpr const char* kNames[] = {"equal", "tie", "failure"};
  return kNames[static_cast<int>(comparison)];
}

nlohmann::ordered_json json_of(const EvalGroup& group) {
  nlohmann::ordered_json json;
  if (!group.kind.empty()) json["kind"] = group.kind;
  json["requests"] = group.acceptance.num_requests();
  json["tau_over_steps"] = group.acceptance.tau_over_steps();
  json["tau_over_requests"] = group.acceptance.tau_over_requests();
  json["steps"] = group.acceptance.num_steps();
  json["cut_steps"] = group.acceptance.num_cut_steps();
  json["acceptance_per_slot"] = group.acceptance.acceptance_per_slot();
  json["plain_tokens_per_second"] = group.plain_tokens_per_second();
  json["drafted_tokens_per_second"] = group.drafted_tokens_per_second();
  return json;
}

nlohmann::ordered_json json_of(const RequestReport& request) {
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const DecodeStep& step : request.drafted.steps) {
    steps.push_back({{"drafts", step.num_drafts}, {"accepted", step.num_accepted}, {"cut", step.cut}});
  }
  nlohmann::ordered_json json;
  json["document"] = request.document;
  json["kind"] = request.kind;
  json["prompt_tokens"] = request.prompt_tokens;
  json["tokens"] = request.drafted.tokens.size();
  json["plain_tokens"] = request.plain.tokens.size();
  json["ended"] = request.drafted.ended;
  json["comparison"] = name_of(request.comparison);
  if (request.first_difference >= 0) {
    json["first_difference"] = request.first_difference;
    json["margin"] = request.margin;
  }
  json["noise"] = request.noise;
  json["plain_seconds"] = request.plain.decode_seconds;
  json["drafted_seconds"] = request.drafted.decode_seconds;
  json["steps"] = std::move(steps);
  return json;
}

std::string row(const std::string& name, const EvalGroup& group) {
  const double plain = group.plain_tokens_per_second(), drafted = group.drafted_tokens_per_second();
  return fmt::format("{:<16}{:9}{:8}{:11.3f}{:14.3f}{:12.1f}{:12.1f}{:10.2f}\n", name, group.acceptance.num_requests(),
                     group.acceptance.num_steps(), group.acceptance.tau_over_steps(),
                     group.acceptance.tau_over_requests(), plain, drafted, plain > 0 ? drafted / plain : 0.0);
}

}  // namespace

std::string eval_report_json(const EvalReport& report) {
  nlohmann::ordered_json json;
  json["target"] = report.target;
  json["block_size"] = report.block_size;
  json["max_new_tokens"] = report.max_new_tokens;
  json["convention"] = "tau = accepted drafts + 1 per step; steps cut by the limit or an end id are left out of it";
  json["all"] = json_of(report.all);
  json["kinds"] = nlohmann::ordered_json::array();
  for (const EvalGroup& group : report.kinds) json["kinds"].push_back(json_of(group));
  json["lossless"] = {{"passed", report.lossless()}, {"failures", report.num_failures},
                      {"ties", report.num_ties},     {"requests", report.requests.size()},
                      {"noise", report.noise},       {"compared_positions", report.num_compared_positions}};
  json["skipped_documents"] = report.num_skipped;
  json["requests"] = nlohmann::ordered_json::array();
  for (const RequestReport& request : report.requests) json["requests"].push_back(json_of(request));
  // Names come from files, so bytes that are not UTF-8 are replaced; they are no reason to fail.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string eval_report_table(const EvalReport& report) {
  std::string out = fmt::format("target {}, block size {}, at most {} tokens a request\n\n", report.target,
                                report.block_size, report.max_new_tokens);
  out +=
      "prompts         requests   steps  tau/steps  tau/requests       plain     drafted  speed-up\n"
      "                                                              tokens/s    tokens/s\n";
  out += row("all", report.all);
  for (const EvalGroup& group : report.kinds) out += row(group.kind, group);
  out += fmt::format(
      "\ntau = accepted drafts + 1 per step; {} steps cut by the limit or an end id are left out\naccepted per slot:",
      report.all.acceptance.num_cut_steps());
  std::int64_t slot = 0;
  for (const double share : report.all.acceptance.acceptance_per_slot())
    out += fmt::format("  {}: {:.1f}%", ++slot, 100 * share);
  out += fmt::format("\nlossless: {} ({} failures, {} ties in {} requests; noise {:.4f} over {} positions)\n",
                     report.lossless() ? "yes" : "NO", report.num_failures, report.num_ties, report.requests.size(),
                     report.noise, report.num_compared_positions);
  if (report.num_skipped > 0)
    out += fmt::format("{} held-out documents could not be decoded and were skipped\n", report.num_skipped);
  return out;
}

}  // namespace draftsmith
