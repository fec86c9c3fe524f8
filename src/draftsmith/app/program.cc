// The command line as a whole: subcommands and exit codes. This is the one place that catches exceptions.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "draftsmith/app/commands.h"
#include "draftsmith/app/version.h"
#include "draftsmith/base/check.h"
#include "draftsmith/base/memory.h"
#include "draftsmith/config/nearest_name.h"
#include "draftsmith/nn/large_blocks.h"

namespace draftsmith {
namespace {

constexpr int kFailure = 1, kUsage = 2;
constexpr const char* kOutOfMemory =
    "memory ran out; set train.recompute to true, lower train.anchors_per_pack, train.row_length, draft.layers or "
    "train.feature_cache_mb, or set draft.vocab_size; `train --dry-run` says how much a run will need";

void declare(CLI::App& app) {
  app.description(
      "Draftsmith trains DFlash drafters: small models that make a frozen target model decode several tokens per pass\n"
      "without changing its output.");
  app.footer(
      "The usual order: prepare (chats -> data), train, eval, export; generate shows the result.\n"
      "Each command explains itself: draftsmith train --help");
  app.set_version_flag("--version", std::string("draftsmith ") + kVersion);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  add_prepare(app);
  add_train(app);
  add_eval(app);
  add_generate(app);
  add_export(app);
  add_inspect(app);
  add_verify(app);
  add_smoke(app);
  add_bench(app);
  add_env(app);
}

// A file that grows too long or a closed pipe must not end the process: it reaches us as an error of write().
void keep_signals_as_errors() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

// Bounds the memory that libraries would keep for themselves. oneDNN and its wrapper would keep 1024 compiled products
// each, a quarter of a megabyte apiece, with a new one for every number of rows; a step has about twenty products.
void bound_memory() {
  lower_mmap_threshold();
  install_block_cache();
  for (const char* bound : {"LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"}) ::setenv(bound, "128", 0);
}

// Says which command was meant; CLI11 would only say that a command is missing.
void refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  const std::string word = argv[1], nearest = nearest_name(word, known);
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  throw UsageError(text_of("there is no command '", word, "'",
                           nearest.empty() ? "; `draftsmith --help` lists them" : "; did you mean '" + nearest + "'?"));
}

int report(const char* what, int code) {
  std::fprintf(stderr, "draftsmith: %s\n", what);
  return code;
}

}  // namespace

int run_program(int argc, char** argv) {
  keep_signals_as_errors();
  bound_memory();
  CLI::App app;
  declare(app);
  try {
    refuse_unknown_command(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return report(error.what(), kUsage);
  } catch (const UsageError& error) {
    return report(error.what(), kUsage);
  } catch (const std::bad_alloc&) {
    return report(kOutOfMemory, kFailure);
  } catch (const std::exception& error) {
    const bool torchs = std::strstr(error.what(), "DefaultCPUAllocator") != nullptr;  // its own kind of bad_alloc
    return report(torchs ? kOutOfMemory : error.what(), kFailure);
  }
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written ? 0 : report("cannot write the output", kFailure);
}

}  // namespace draftsmith
