// The commands of the program. Each add_* declares one subcommand with its options and help; its callback runs it and
// throws UserError on failure. Results go to stdout.
#pragma once

namespace CLI {
class App;
}

namespace draftsmith {

void add_prepare(CLI::App& app);
void add_train(CLI::App& app);
void add_eval(CLI::App& app);
void add_generate(CLI::App& app);
void add_export(CLI::App& app);
void add_inspect(CLI::App& app);
void add_verify(CLI::App& app);
void add_smoke(CLI::App& app);
void add_bench(CLI::App& app);
void add_env(CLI::App& app);

// Runs the program; returns its exit code: 0 done, 1 failure, 2 the command line or configuration was not understood.
int run_program(int argc, char** argv);

}  // namespace draftsmith
