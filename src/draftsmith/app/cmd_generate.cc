// `draftsmith generate`: an answer, streamed, with or without a drafter.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "draftsmith/app/choice_option.h"
#include "draftsmith/app/commands.h"
#include "draftsmith/app/drafter_paths.h"
#include "draftsmith/app/open_target.h"
#include "draftsmith/base/check.h"
#include "draftsmith/chat/supervise.h"
#include "draftsmith/decode/speculative.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/text/chat_template.h"
#include "draftsmith/text/tokenizer.h"

namespace draftsmith {
namespace {

struct GenerateArguments {
  std::string model, drafter, prompt, system;
  Compute compute = Compute::kBFloat16;
  std::int64_t max_new_tokens = 256, threads = 0;
  double temperature = 0;
  bool raw = false;
};

std::string read_prompt(const std::string& given) {
  if (given != "-") return given;
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

std::vector<std::int32_t> prompt_tokens(const GenerateArguments& arguments, const Tokenizer& tokenizer) {
  const std::string text = read_prompt(arguments.prompt);
  if (arguments.raw) return tokenizer.encode(text, true);
  const ChatTemplate chat_template = ChatTemplate::of(tokenizer);
  std::vector<ChatMessage> messages;
  if (!arguments.system.empty()) messages.push_back({"system", arguments.system});
  messages.push_back({"user", text});
  return Supervisor(tokenizer, chat_template).prompt(messages).tokens;
}

// Prints whole characters only: a token may end in the middle of one.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void add(std::span<const std::int32_t> tokens) {
    for (const std::int32_t id : tokens) pending_ += tokenizer_.is_end(id) ? "" : tokenizer_.piece(id, true);
    const std::size_t whole = whole_characters();
    std::fwrite(pending_.data(), 1, whole, stdout);
    std::fflush(stdout);
    pending_.erase(0, whole);
  }
  void finish() {
    std::fputs(pending_.c_str(), stdout);
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }

 private:
  // Bytes of pending_ before an unfinished UTF-8 character at its end.
  std::size_t whole_characters() const {
    for (std::size_t back = 1; back <= std::min<std::size_t>(4, pending_.size()); ++back) {
      const auto byte = static_cast<unsigned char>(pending_[pending_.size() - back]);
      if ((byte & 0xC0) == 0x80) continue;  // a continuation
      const std::size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
      return length > back ? pending_.size() - back : pending_.size();
    }
    return pending_.size();
  }
  const Tokenizer& tokenizer_;
  std::string pending_;
};

void print_figures(const DecodeResult& result, bool with_drafter) {
  fmt::print(stderr, "{} tokens, {:.1f} tokens/s", result.tokens.size(), result.tokens_per_second());
  if (with_drafter) {
    AcceptanceStats stats;
    stats.add_request(result.steps);
    fmt::print(stderr, ", tau {:.2f} over {} whole steps", stats.tau_over_steps(), stats.num_steps());
  }
  std::fputc('\n', stderr);
}

void run(const GenerateArguments& arguments) {
  if (arguments.temperature != 0) {
    throw UsageError(
        "--temperature above 0 is not supported yet, since drafting is lossless only with greedy decoding; leave it at "
        "0");
  }
  const bool with_drafter = !arguments.drafter.empty();
  if (!with_drafter && arguments.model.empty())
    throw UsageError("--model and --drafter are both missing; give a target, a drafter or both");
  std::filesystem::path folder, model = arguments.model;
  if (with_drafter) {
    folder = find_drafter_folder(arguments.drafter);
    model = target_path(arguments.model, folder);
  }
  const auto tokenizer = open_tokenizer(model);
  const auto prompt = prompt_tokens(arguments, *tokenizer);
  const auto target = open_target({.model = model, .threads = arguments.threads, .compute = arguments.compute});
  TextStream text(*tokenizer);
  DecodeOptions options;
  options.max_new_tokens = arguments.max_new_tokens;
  options.on_tokens = [&text](std::span<const std::int32_t> tokens) { text.add(tokens); };
  DecodeResult result;
  if (with_drafter) {
    const LoadedDrafter drafter = read_drafter_folder(folder);
    result = SpeculativeDecoder(*target, drafter, place_of(arguments.compute)).decode(prompt, options);
  } else {
    result = decode_plain(*target, prompt, options);
  }
  text.finish();
  print_figures(result, with_drafter);
}

}  // namespace

void add_generate(CLI::App& app) {
  auto arguments = std::make_shared<GenerateArguments>();
  auto& a = *arguments;
  auto* command = app.add_subcommand(
      "generate", "Answer a prompt, with or without a drafter, and print acceptance length (tau) and tokens/s");
  command->add_option("prompt", a.prompt, "message of the user; - reads it from standard input")->required();
  command->add_option("--model", a.model,
                      "GGUF file of the target (default: the one that the drafter was trained for)");
  command->add_option("--drafter", a.drafter,
                      "run folder, checkpoint or drafter folder; without it the target decodes alone");
  command->add_option("--system", a.system, "system message before the prompt");
  command->add_flag("--raw", a.raw, "continue the prompt as text instead of answering it as a chat message");
  command->add_option("--max-new-tokens", a.max_new_tokens, "largest number of tokens in the answer")
      ->capture_default_str();
  command->add_option("--temperature", a.temperature, "sampling temperature; only 0 (greedy) is supported")
      ->capture_default_str();
  add_choice(*command, "--compute", a.compute, "type of the drafter's matrix products: ");
  command->add_option("--threads", a.threads, "CPU threads; 0 = all cores")->capture_default_str();
  command->footer(
      "Examples:\n"
      "  draftsmith generate --model model.gguf \"Why is the sky blue?\"\n"
      "  draftsmith generate --drafter runs/smollm2 \"Why is the sky blue?\"");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace draftsmith
