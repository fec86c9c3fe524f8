// A checkpoint is whole or is not there, and a save that fails takes nothing with it.
#include "draftsmith/run/checkpoint.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/draft/recipe.h"
#include "draftsmith/draft/test_loaded.h"
#include "draftsmith/run/plan.h"
#include "draftsmith/run/test_run.h"
#include "draftsmith/run/training_run.h"
#include "draftsmith/store/files.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

// Files larger than `bytes` cannot be written while it lives: a full disk.
class SmallFilesOnly {
 public:
  explicit SmallFilesOnly(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &old_);
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallFilesOnly() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

struct CheckpointTest : testing::Test {
  TinyRun run{"checkpoint"};
  LoadedDrafter loaded = loaded_drafter(resolve_drafter_config(run.config, run.target.info(), 39), 1);
  std::unique_ptr<Optimizer> optimizer;
  TrainState state;

  CheckpointTest() {
    optimizer = std::make_unique<Optimizer>(loaded.drafter->params(), run.config.train);
    state.target = "fake";
    state.seed = 18446744073709551615ULL;
  }
  DraftVocab vocab;

  fs::path save(std::int64_t step, std::int64_t keep) {
    state.step = step;
    return save_checkpoint(run.config.output,
                           {.state = state, .drafter = *loaded.drafter, .vocab = vocab, .optimizer = *optimizer}, keep);
  }
};

TEST_F(CheckpointTest, KeepsASmallerDraftVocabulary) {
  vocab.ids = {0, 2, 3};
  reconfigure(loaded, [](DrafterConfig& c) { c.draft_vocab_size = 3; });
  EXPECT_EQ(read_drafter_folder(save(1, 2)).vocab.ids, vocab.ids);
}

TEST_F(CheckpointTest, IsADrafterAndGivesBackWhatWasSaved) {
  for (const NamedTensor& moment : optimizer->state()) moment.tensor.fill_(0.25);
  state.total_steps = 40, state.seconds = 1.0 / 3, state.config = "a: \"b\"\n";
  const fs::path folder = save(7, 2);
  EXPECT_EQ(folder.filename(), "step-000007");
  const LoadedDrafter read = read_drafter_folder(folder);
  for (const Param& param : loaded.drafter->params())
    EXPECT_TRUE(param.tensor.equal(param_of(*read.drafter, param.name))) << param.name;
  const TrainState back = read_train_state(folder);
  EXPECT_EQ(back.step, 7);
  EXPECT_EQ(back.total_steps, 40);
  EXPECT_EQ(back.seconds, state.seconds);
  EXPECT_EQ(back.seed, state.seed);
  EXPECT_EQ(back.config, state.config);
  Optimizer other(loaded.drafter->params(), run.config.train);
  read_optimizer(folder, back, other);
  EXPECT_EQ(other.num_steps(), 7);
  for (const NamedTensor& moment : other.state()) EXPECT_TRUE(moment.tensor.eq(0.25).all().item<bool>()) << moment.name;
}

TEST_F(CheckpointTest, TheNewestStayAndTheNewestWholeOneIsFound) {
  for (std::int64_t step = 1; step <= 4; ++step) save(step, 2);
  EXPECT_FALSE(fs::exists(checkpoint_folder(run.config.output, 2)));
  EXPECT_TRUE(fs::exists(checkpoint_folder(run.config.output, 3)));
  const fs::path broken = checkpoint_folder(run.config.output, 9),
                 leftover = fs::path(run.config.output) / "checkpoints" / "step-000010.tmp-1";
  fs::create_directories(broken);
  fs::create_directories(leftover);
  fs::copy(checkpoint_folder(run.config.output, 4), broken, fs::copy_options::recursive);
  fs::resize_file(broken / "optimizer.safetensors", 1000);
  std::vector<std::string> notices;
  const auto latest = latest_checkpoint(run.config.output, [&](const std::string& text) { notices.push_back(text); });
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(*latest, checkpoint_folder(run.config.output, 4));
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("step-000009"), std::string::npos);
  EXPECT_FALSE(latest_checkpoint(run.folder / "nowhere", {}).has_value());
}

TEST_F(CheckpointTest, ASaveThatFailsLeavesTheOldOneWhole) {
  save(1, 1);
  std::string message;
  for (const std::int64_t step : {1, 2}) {  // over the same name and beside it
    const SmallFilesOnly limit(20000);
    try {
      save(step, 1);
    } catch (const UserError& error) {
      message = error.what();
    }
  }
  EXPECT_NE(message.find("step-000002"), std::string::npos) << message;
  const auto latest = latest_checkpoint(run.config.output, {});
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->filename(), "step-000001");
  EXPECT_TRUE(param_of(*read_drafter_folder(*latest).drafter, "fc.weight")
                  .equal(param_of(*loaded.drafter, "fc.weight").detach()));
  save(2, 1);
  EXPECT_EQ(latest_checkpoint(run.config.output, {})->filename(), "step-000002");
}

TEST_F(CheckpointTest, ARunWhoseSaveFailsEndsWithTheErrorAndResumes) {
  run.config.train.max_steps = 6;
  run.config.train.save_every = 2;
  bool full = false;
  std::unique_ptr<SmallFilesOnly> limit;
  const TrainHooks hooks{.progress =
                             [&](const Progress& p) {
                               if (full && p.done == 4) limit = std::make_unique<SmallFilesOnly>(20000);
                             },
                         .notice = {},
                         .stop_requested = {}};
  full = true;
  EXPECT_THROW(train_alone(run, loaded.config(), false, hooks), UserError);
  limit.reset();
  full = false;
  EXPECT_EQ(latest_checkpoint(run.config.output, {})->filename(), "step-000002");
  EXPECT_EQ(train_alone(run, loaded.config(), true, hooks).steps, 6);
}

TEST_F(CheckpointTest, AFolderThatCannotBeWrittenIsFoundBeforeTheFirstStep) {
  write_text_file(run.folder / "file", "x");
  run.config.output = (run.folder / "file" / "run").string();
  std::int64_t lines = 0;
  const TrainHooks hooks{.progress = [&](const Progress&) { ++lines; }, .notice = {}, .stop_requested = {}};
  try {
    train_alone(run, loaded.config(), false, hooks);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(run.config.output), std::string::npos) << error.what();
  }
  EXPECT_EQ(lines, 0);
  EXPECT_EQ(run.target.tokens_computed, 0);
}

TEST_F(CheckpointTest, AStateThatIsNotOneIsRefusedByKey) {
  const fs::path folder = save(1, 1);
  for (const auto& [text, key] :
       {std::pair<std::string, std::string>{"{}", "step"}, {"[1]", "JSON object"}, {"{\"step\": \"x\"}", "step"}}) {
    write_text_file(folder / "state.json", text);
    try {
      read_train_state(folder);
      ADD_FAILURE() << text;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  }
}

// ---- kill -9 ----

constexpr const char* kKilledRun = "DRAFTSMITH_TEST_KILLED_RUN";

// A run that saves at every step and goes on from what it finds.
TrainSummary train_saving_always(TinyRun& run, const std::string& output, std::int64_t steps,
                                 std::vector<std::string>* notices) {
  run.config.output = output;
  run.config.train.epochs = 1000000;
  run.config.train.max_steps = steps;
  run.config.train.save_every = 1;
  run.config.train.warmup = 5;  // a rate that does not depend on where the run will end
  run.config.train.min_learning_rate = run.config.train.learning_rate;
  const TrainHooks hooks{
      .progress = {}, .notice = [&](const std::string& text) { notices->push_back(text); }, .stop_requested = {}};
  const bool resume = latest_checkpoint(output, {}).has_value();
  return train_alone(run, resolve_drafter_config(run.config, run.target.info(), 39), resume, hooks);
}

// The process that is killed: only its parent below starts it.
TEST(KilledRun, DISABLED_TrainsUntilKilled) {
  const char* output = std::getenv(kKilledRun);
  if (output == nullptr) GTEST_SKIP() << "runs as a child of KilledRun.KeepsItsLastCheckpoint";
  TinyRun run("killed_child");
  std::vector<std::string> notices;
  train_saving_always(run, output, 1000000, &notices);
}

class Child {
 public:
  explicit Child(const std::string& output) {
    setenv(kKilledRun, output.c_str(), 1);
    char program[] = "/proc/self/exe", filter[] = "--gtest_filter=KilledRun.DISABLED_TrainsUntilKilled",
         disabled[] = "--gtest_also_run_disabled_tests", quiet[] = "--gtest_brief=1";
    char* const words[] = {program, filter, disabled, quiet, nullptr};
    if (posix_spawn(&pid_, program, nullptr, nullptr, words, environ) != 0) pid_ = -1;
  }
  bool ended() const { return pid_ < 0 || waitpid(pid_, nullptr, WNOHANG) != 0; }
  void kill_now() const {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

TEST(KilledRun, KeepsItsLastCheckpoint) {
  TinyRun run("killed");
  const std::string output = (run.folder / "run").string();
  Rng rng(11, RngPurpose::kTest);
  std::int64_t newest = 0;
  for (int round = 0; round < 20; ++round) {
    const Child child(output);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!fs::exists(checkpoint_folder(output, newest + 1))) {
      ASSERT_FALSE(child.ended()) << "round " << round;
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "round " << round;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(40000)));
    child.kill_now();
    std::vector<std::string> notices;
    const auto latest = latest_checkpoint(output, [&](const std::string& text) { notices.push_back(text); });
    ASSERT_TRUE(latest.has_value()) << "round " << round;
    EXPECT_TRUE(notices.empty()) << "round " << round << ": " << notices.front();
    const TrainState state = read_train_state(*latest);
    EXPECT_GE(state.step, newest + 1) << "round " << round;
    EXPECT_EQ(*latest, checkpoint_folder(output, state.step));
    newest = state.step;
    LoadedDrafter drafter = read_drafter_folder(*latest);
    Optimizer optimizer(drafter.drafter->params(), run.config.train);
    read_optimizer(*latest, state, optimizer);
  }
  // The next run removes the remains of the kills, and ends with the bits of an undisturbed one.
  std::vector<std::string> notices;
  const TrainSummary resumed = train_saving_always(run, output, newest + 2, &notices);
  std::int64_t folders = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(output) / "checkpoints")) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("step-0")) << entry.path();
    ++folders;
  }
  EXPECT_EQ(folders, run.config.train.keep_checkpoints);
  TinyRun whole("undisturbed");
  const TrainSummary straight = train_saving_always(whole, (whole.folder / "run").string(), newest + 2, &notices);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(read_text_file(straight.checkpoint / file), read_text_file(resumed.checkpoint / file)) << file;
}

}  // namespace
}  // namespace draftsmith
