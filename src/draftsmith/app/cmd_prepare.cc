// `draftsmith prepare`: chats in JSON lines -> a folder of token ids and loss masks.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "draftsmith/app/commands.h"
#include "draftsmith/app/open_target.h"
#include "draftsmith/app/terminal.h"
#include "draftsmith/base/check.h"
#include "draftsmith/chat/prepare.h"
#include "draftsmith/store/files.h"
#include "draftsmith/target/target.h"
#include "draftsmith/text/chat_template.h"
#include "draftsmith/text/tokenizer.h"

namespace draftsmith {
namespace {

struct PrepareArguments {
  std::string model, output, jsonl, chat_template;
  std::vector<std::string> train, eval;
  std::int64_t eval_count = 0, max_length = 0, threads = 0;
  double eval_share = 0;
  bool generate = false, regenerate = false, quiet = false;
  GenerateOptions answers;
};

// Lets the target itself answer; it is loaded when the first answer is asked for.
class Answerer {
 public:
  Answerer(const PrepareArguments& arguments, Terminal& terminal) : arguments_(arguments), terminal_(terminal) {}

  std::vector<Answer> operator()(std::span<const std::vector<std::int32_t>> prompts) {
    if (!target_) target_ = open_target({.model = arguments_.model, .threads = arguments_.threads});
    std::int64_t done = 0, tokens = 0;
    const auto total = static_cast<std::int64_t>(prompts.size());
    const auto on_answer = [&](std::int64_t, const Target::Answer& answer) {
      tokens += static_cast<std::int64_t>(answer.tokens.size());
      terminal_.show("answering", {++done, total, "answers", std::to_string(tokens) + " tokens"});
    };
    std::vector<Answer> answers;
    for (auto& answer : target_->generate(prompts, arguments_.answers, on_answer)) {
      answers.push_back({std::move(answer.tokens), answer.ended});
    }
    return answers;
  }

 private:
  const PrepareArguments& arguments_;
  Terminal& terminal_;
  std::unique_ptr<Target> target_;
};

PrepareOptions options_of(const PrepareArguments& arguments) {
  PrepareOptions options;
  options.train_files.assign(arguments.train.begin(), arguments.train.end());
  options.eval_files.assign(arguments.eval.begin(), arguments.eval.end());
  options.eval_count = arguments.eval_count;
  options.eval_share = arguments.eval_share;
  options.seed = arguments.answers.seed;
  options.max_length = arguments.max_length;
  options.answer_mode = arguments.regenerate ? AnswerMode::kAll : AnswerMode::kMissing;
  options.output = arguments.output;
  options.jsonl_folder = arguments.jsonl;
  return options;
}

void run(const PrepareArguments& arguments) {
  Terminal terminal(arguments.quiet ? Terminal::Mode::kQuiet : Terminal::Mode::kAuto);
  const auto tokenizer = open_tokenizer(arguments.model);
  const std::string source = arguments.chat_template.empty() ? "" : read_text_file(arguments.chat_template);
  const ChatTemplate chat_template = ChatTemplate::of(*tokenizer, source);
  Answerer answerer(arguments, terminal);
  AnswerFn answer;
  if (arguments.generate || arguments.regenerate) {
    answer = [&answerer](std::span<const std::vector<std::int32_t>> prompts) { return answerer(prompts); };
  }
  const PrepareSummary summary = prepare(options_of(arguments), *tokenizer, chat_template, answer,
                                         terminal.progress("preparing"), terminal.notices());
  terminal.finish();
  std::fputs(summary.text().c_str(), stdout);
  fmt::print("written: {}\n", arguments.output);
}

}  // namespace

void add_prepare(CLI::App& app) {
  auto arguments = std::make_shared<PrepareArguments>();
  auto& a = *arguments;
  auto* command = app.add_subcommand("prepare", "Turn chats (JSON lines) into training data for a target");
  command->add_option("--model", a.model, "GGUF file of the target, whose tokenizer and chat template are used")
      ->required();
  command->add_option("--train", a.train, "files of JSON lines with chats to train on; - reads standard input")
      ->required();
  command->add_option("--eval", a.eval, "files of JSON lines with held-out chats, for the held-out loss and for eval");
  command->add_option("--eval-count", a.eval_count, "without --eval: hold out this many of the chats of --train");
  command->add_option("--eval-share", a.eval_share, "without --eval: hold out this share of the chats, 0 to 1");
  command->add_option("--output", a.output, "folder to write, with train.safetensors and eval.safetensors")->required();
  command->add_option("--max-length", a.max_length, "cut documents after this many tokens; 0 = keep all tokens");
  command->add_option("--chat-template", a.chat_template,
                      "Jinja file to use instead of the target's own chat template");
  command->add_flag("--generate", a.generate, "let the target answer chats whose last answer is missing");
  command->add_flag("--regenerate", a.regenerate, "replace all answers by answers of the target");
  command->add_option("--max-new-tokens", a.answers.max_new_tokens, "largest number of tokens in an answer")
      ->capture_default_str();
  command->add_option("--temperature", a.answers.temperature, "sampling temperature; 0 = greedy")
      ->capture_default_str();
  command->add_option("--top-p", a.answers.top_p, "sample among the most likely tokens with this total probability")
      ->capture_default_str();
  command->add_option("--top-k", a.answers.top_k, "sample among the k most likely tokens; 0 = all")
      ->capture_default_str();
  command->add_option("--seed", a.answers.seed, "seed for sampling answers and for choosing held-out chats")
      ->capture_default_str();
  command->add_option("--parallel", a.answers.parallel, "number of answers generated at once")->capture_default_str();
  command->add_option("--threads", a.threads, "CPU threads; 0 = all cores")->capture_default_str();
  command->add_option("--write-jsonl", a.jsonl, "folder to write the chats with their answers to, as JSON lines");
  command->add_flag("--quiet", a.quiet, "show no progress");
  command->footer(
      "A line is {\"messages\": [{\"role\": \"user\", \"content\": \"...\"}, ...]} or ShareGPT's {\"conversations\": "
      "[{\"from\": ...,\n"
      "\"value\": ...}, ...]}, optionally with \"kind\". Only assistant turns and their end-of-turn are supervised.\n"
      "A drafter learns best from answers that the target itself gave: use --regenerate on chats of other origin.\n"
      "Example:\n"
      "  draftsmith prepare --model model.gguf --train chats.jsonl --eval-count 50 --regenerate --output data/mine");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace draftsmith
