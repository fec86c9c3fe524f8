// Laws of training on a target made of fixed random numbers: it learns, it repeats, it resumes, it never ends
// untouched.
#include "draftsmith/run/training_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "draftsmith/base/check.h"
#include "draftsmith/config/yaml.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/draft/recipe.h"
#include "draftsmith/run/checkpoint.h"
#include "draftsmith/run/resume.h"
#include "draftsmith/run/start.h"
#include "draftsmith/run/test_run.h"
#include "draftsmith/store/files.h"
#include "draftsmith/train/trainer.h"

namespace draftsmith {
namespace {

// Runs to the end, or stops once `stop_at` steps are done.
TrainSummary run_until(TinyRun& run, std::int64_t stop_at, bool resume, std::vector<std::string>* notices = nullptr) {
  bool stop = false;
  const TrainHooks hooks{.progress = [&](const Progress& p) { stop = stop || p.done == stop_at; },
                         .notice =
                             [&](const std::string& text) {
                               if (notices) notices->push_back(text);
                             },
                         .stop_requested = [&] { return stop; }};
  const DrafterConfig drafter = resolve_drafter_config(run.config, run.target.info(), 39);
  return train_alone(run, drafter, resume, hooks);
}

// Steps enough to learn the chain.
void train_long(TinyRun& run, std::int64_t log_every) {
  run.config.train.epochs = 30;
  run.config.train.max_steps = 250;
  run.config.train.log_every = log_every;
}

void expect_same_bits(const std::filesystem::path& a, const std::filesystem::path& b) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(read_text_file(a / file), read_text_file(b / file)) << file << " of " << a << " and " << b;
}

std::vector<nlohmann::json> metrics_of(const TinyRun& run) {
  std::vector<nlohmann::json> out;
  std::ifstream in(run.config.output + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    nlohmann::json object = nlohmann::json::parse(line);
    object.erase("seconds");
    object.erase("tokens_per_second");
    out.push_back(object);
  }
  return out;
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Train, ATinyDrafterLearnsAFixedChain) {
  for (const Compute compute : {Compute::kFloat32, Compute::kBFloat16}) {
    TinyRun run(std::string("learn_") + name_of(compute));
    run.config.train.compute = compute;
    train_long(run, 25);
    const TrainSummary summary = run_until(run, -1, false);
    EXPECT_EQ(summary.steps, 250);
    EXPECT_GT(summary.accuracy, 0.95);
    EXPECT_GT(summary.accepted_length, 3.0);
    EXPECT_GT(summary.eval_accuracy, 0.9);
    EXPECT_EQ(summary.accuracy_per_slot.size(), 3u);
    for (const char* file : {"run.yaml", "metrics.jsonl", "plot.svg", "tensorboard"})
      EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(run.config.output) / file)) << file;
    EXPECT_EQ(read_drafter_folder(summary.checkpoint).config().block_size, 4);
  }
}

TEST(Train, TheSameSeedGivesTheSameBits) {
  TinyRun a("seed_a"), b("seed_b"), other("seed_c");
  for (TinyRun* run : {&a, &b, &other}) {
    run->config.train.max_steps = 4;
    run->config.threads = 2;
    run->config.train.compute = Compute::kBFloat16;
  }
  other.config.seed = 2;
  const TrainSummary first = run_until(a, -1, false), second = run_until(b, -1, false);
  expect_same_bits(first.checkpoint, second.checkpoint);
  EXPECT_EQ(metrics_of(a), metrics_of(b));
  EXPECT_NE(read_text_file(first.checkpoint / "model.safetensors"),
            read_text_file(run_until(other, -1, false).checkpoint / "model.safetensors"));
}

// The chain has 32 ids; a vocabulary of exactly those learns it, keeps them over stops, and cannot change on the way.
TEST(Train, ASmallerVocabularyLearnsAndResumes) {
  TinyRun straight("vocab"), stopped("vocab_stopped");
  for (TinyRun* run : {&straight, &stopped}) {
    run->config.draft.vocab_size = 32;
    train_long(*run, 25);
  }
  std::vector<std::string> notices;
  const TrainSummary summary = run_until(straight, -1, false, &notices);
  EXPECT_GT(summary.accuracy, 0.95);
  EXPECT_GT(summary.eval_accuracy, 0.9);
  EXPECT_NE(std::find(notices.begin(), notices.end(),
                      "draft vocabulary: 32 of 40 ids; 0.00 % of the training labels are outside it, and 0.00 % of the "
                      "held-out ones"),
            notices.end());
  const LoadedDrafter drafter = read_drafter_folder(summary.checkpoint);
  ASSERT_EQ(drafter.vocab.ids.size(), 32u);
  EXPECT_EQ(drafter.vocab.ids.back(), 31);
  run_until(stopped, 100, false);
  const TrainSummary resumed = run_until(stopped, -1, true);
  expect_same_bits(summary.checkpoint, resumed.checkpoint);
  stopped.config.draft.vocab_size = 31;
  EXPECT_NE(refusal([&] { run_until(stopped, -1, true); }).find("draft.vocab_size is 31 now and was 32"),
            std::string::npos);
}

// Half of the ids: what lies outside is never right, and steps without any label that can be drafted pass by.
TEST(Train, LabelsOutsideASmallerVocabularyAreWrong) {
  TinyRun run("vocab_half");
  run.config.draft.vocab_size = 16;
  train_long(run, 50);
  const TrainSummary summary = run_until(run, -1, false);
  EXPECT_GT(summary.accuracy, 0.4);
  EXPECT_LT(summary.accuracy, 0.65);
  TinyRun none("vocab_none");
  none.config.draft.vocab_size = 1;
  none.config.train.row_length = 13;  // a document a pack: most have no label in a vocabulary of one
  none.config.train.max_steps = 20;
  EXPECT_EQ(run_until(none, -1, false).steps, 20);
}

TEST(Train, AnIdBeyondTheEmbeddingIsRefused) {
  TinyRun run("beyond");
  run.data.eval.token_ids[3] = 40;
  EXPECT_NE(refusal([&] { run_until(run, -1, false); }).find("holds the token 40"), std::string::npos);
}

// 40 documents, 3 epochs, accumulation 2, warm-up 5: stops fall inside epochs, packs and the order.
TEST(Train, StoppingAndResumingChangesNothing) {
  for (const std::int64_t threads : {1, 2}) {
    const std::int64_t steps = threads == 1 ? 30 : 15;
    TinyRun straight("straight"), once("once"), thrice("thrice");
    for (TinyRun* run : {&straight, &once, &thrice}) {
      run->config.threads = threads;
      run->config.train.row_length = 32;
      run->config.train.accumulation = 2;
      run->config.train.warmup = 5;
      run->config.train.max_steps = steps;
      run->config.train.loss = threads == 2 ? LossKind::kDpace : LossKind::kDecay;
    }
    const TrainSummary whole = run_until(straight, -1, false);
    EXPECT_EQ(whole.steps, steps);

    const TrainSummary stopped = run_until(once, 13, false);
    EXPECT_TRUE(stopped.stopped_early);
    EXPECT_EQ(stopped.steps, 13);
    EXPECT_EQ(read_train_state(stopped.checkpoint).step, 13);
    const TrainSummary resumed = run_until(once, -1, true);
    EXPECT_FALSE(resumed.stopped_early);
    expect_same_bits(whole.checkpoint, resumed.checkpoint);
    EXPECT_EQ(metrics_of(straight), metrics_of(once));

    run_until(thrice, 3, false);
    run_until(thrice, 8, true);
    run_until(thrice, 12, true);
    expect_same_bits(whole.checkpoint, run_until(thrice, -1, true).checkpoint);
    EXPECT_EQ(metrics_of(straight), metrics_of(thrice));
  }
}

TEST(Train, ACrashAfterACheckpointIsResumedFromIt) {
  TinyRun straight("no_crash"), crashed("crash");
  for (TinyRun* run : {&straight, &crashed}) {
    run->config.train.max_steps = 14;
    run->config.train.save_every = 5;
    run->config.train.log_every = 3;
  }
  const TrainSummary whole = run_until(straight, -1, false);
  run_until(crashed, 12, false);
  std::filesystem::remove_all(checkpoint_folder(crashed.config.output, 12));  // as if it had died there
  expect_same_bits(whole.checkpoint, run_until(crashed, -1, true).checkpoint);
  EXPECT_EQ(metrics_of(straight), metrics_of(crashed));
}

TEST(Train, DataSmallerThanOneStepStillChangesTheWeights) {
  for (const std::int64_t documents : {1, 3}) {
    TinyRun run("partial");
    run.data.train = chain_data(documents, 12, 24, 1);
    run.config.train.accumulation = 32;
    run.config.train.epochs = 1;
    run.config.train.warmup = 1000;
    const DrafterConfig drafter = resolve_drafter_config(run.config, run.target.info(), 39);
    const auto before = starting_drafter(run.config, drafter, run.target, {});
    const TrainSummary summary = run_until(run, -1, false);
    EXPECT_EQ(summary.steps, 1);
    const at::Tensor after = param_of(*read_drafter_folder(summary.checkpoint).drafter, "fc.weight");
    EXPECT_FALSE(after.equal(param_of(*before, "fc.weight")));
    EXPECT_TRUE(after.isfinite().all().item<bool>());
  }
}

// The target's own distribution as the only teacher: the labels are not looked at.
TEST(Train, SoftLabelsAloneTeachTheChain) {
  TinyRun run("soft");
  run.config.train.soft_labels = 1;
  train_long(run, 25);
  const TrainSummary summary = run_until(run, -1, false);
  EXPECT_GT(summary.accuracy, 0.95);
  EXPECT_GT(summary.eval_accuracy, 0.9);
}

// Two packs accumulated are one pack of both: the step divides by the weights of all its packs, not pack by pack.
TEST(Train, AStepHasOneDenominatorHoweverItsPacksAreSplit) {
  TinyRun together("together"), apart("apart");
  for (TinyRun* run : {&together, &apart}) {
    run->data.train = chain_data(1, 30, 30, 1);
    run->data.train.add_document(std::vector<std::int32_t>{1, 8, 11, 26, 5, 28},
                                 std::vector<std::uint8_t>{0, 0, 0, 1, 1, 1});
    run->data.eval = DataSet();
    run->config.train.max_steps = 1;
    run->config.data.max_length = 30;
  }
  apart.config.train.row_length = 30;
  apart.config.train.accumulation = 2;
  const TrainSummary a = run_until(together, -1, false), b = run_until(apart, -1, false);
  EXPECT_NEAR(a.loss, b.loss, 1e-6 * a.loss);
  const auto norm = [](const TinyRun& run) { return metrics_of(run).at(0)["grad_norm"].get<double>(); };
  EXPECT_NEAR(norm(together), norm(apart), 1e-4 * norm(together));
}

TrainSummary run_for_minutes(TinyRun& run, std::vector<std::string>* notices = nullptr) {
  run.config.train.max_minutes = 0.04;
  run.config.train.epochs = 100000;
  run.config.train.log_every = 20;
  run.target.seconds_a_token = 1e-4;
  return run_until(run, -1, false, notices);
}

TEST(TrainBars, MinutesBecomeStepsThatTakeThem) {
  TinyRun timed("timed_bars");
  const TrainSummary summary = run_for_minutes(timed);
  EXPECT_GT(summary.steps, 20);
  EXPECT_LT(summary.minutes, 0.12);  // the machine may be busy
}

TEST(Train, MinutesBecomeStepsThatCanBeRepeated) {
  TinyRun timed("timed");
  std::vector<std::string> notices;
  const TrainSummary summary = run_for_minutes(timed, &notices);
  EXPECT_EQ(summary.total_steps, summary.steps);
  EXPECT_TRUE(std::any_of(notices.begin(), notices.end(), [](const std::string& notice) {
    return notice.find("fitted to 0.04 minutes") != std::string::npos;
  }));

  const RunConfig recorded = read_run_config(timed.config.output + "/run.yaml", {});
  EXPECT_EQ(recorded.train.max_steps, summary.steps);
  EXPECT_EQ(recorded.train.max_minutes, 0);
  TinyRun repeated("repeated");
  const std::string output = repeated.config.output;
  repeated.config = recorded;
  repeated.config.output = output;
  expect_same_bits(summary.checkpoint, run_until(repeated, -1, false).checkpoint);
}

TEST(Train, MinutesTooFewForTwentyStepsStillTrain) {
  TinyRun run("hurry");
  run.config.train.max_minutes = 1e-6;
  const TrainSummary summary = run_until(run, -1, false);
  EXPECT_EQ(summary.steps, 1);
  EXPECT_EQ(read_run_config(run.config.output + "/run.yaml", {}).train.max_steps, 1);
}

TEST(Train, ResumingWithAnotherModelDataOrSeedIsRefusedByKey) {
  TinyRun run("refuse");
  run.config.train.max_steps = 4;
  run_until(run, 2, false);
  const RunConfig config = run.config;
  const auto with = [&](const std::function<void(RunConfig&)>& change) {
    run.config = config;
    change(run.config);
    return refusal([&] { run_until(run, -1, true); });
  };
  EXPECT_NE(with([](RunConfig& c) { c.seed = 9; }).find(": seed is 9 now and was 1"), std::string::npos);
  EXPECT_NE(with([](RunConfig& c) { c.draft.layers = 3; }).find("draft.layers"), std::string::npos);
  EXPECT_NE(with([](RunConfig& c) { c.draft.taps = {1, 2}; }).find("draft.taps"), std::string::npos);
  EXPECT_NE(with([](RunConfig& c) { c.draft.block_size = 6; }).find("draft.block_size"), std::string::npos);
  EXPECT_NE(with([](RunConfig& c) { c.train.accumulation = 2; }).find("train.accumulation"), std::string::npos);
  EXPECT_NE(with([](RunConfig& c) { c.data.max_length = 10; }).find("data.max_length"), std::string::npos);
  const DataFolder data = run.data;
  run.data.train = chain_data(40, 12, 24, 5);
  EXPECT_NE(with([](RunConfig&) {}).find("data.path"), std::string::npos);
  run.data = data;
  run.config = config;
  EXPECT_NE(refusal([&] { run_until(run, -1, false); }).find("--resume"), std::string::npos);

  run.config.train.learning_rate = 5e-3;
  run.config.train.log_every = 2;
  std::vector<std::string> notices;
  EXPECT_EQ(run_until(run, -1, true, &notices).steps, 4);
  EXPECT_EQ(std::count_if(notices.begin(), notices.end(),
                          [](const std::string& n) { return n.find("train.") != std::string::npos; }),
            1);
}

TEST(Train, AFinishedRunResumesToNothingAndSaysSo) {
  TinyRun run("finished");
  run.config.train.max_steps = 3;
  const TrainSummary first = run_until(run, -1, false);
  std::vector<std::string> notices;
  const TrainSummary second = run_until(run, -1, true, &notices);
  EXPECT_EQ(second.steps, 3);
  EXPECT_EQ(second.checkpoint, first.checkpoint);
  EXPECT_NE(notices.back().find("nothing left to do"), std::string::npos);
}

TEST(Train, ADrafterFolderIsAStartIfItsShapeFits) {
  TinyRun run("path"), next("path_next");
  run.config.train.max_steps = 3;
  next.config.train.max_steps = 1;
  const TrainSummary first = run_until(run, -1, false);
  next.config.draft.init = DraftInit::from_folder(first.checkpoint.string());
  const DrafterConfig drafter = resolve_drafter_config(next.config, next.target.info(), 39);
  EXPECT_TRUE(param_of(*starting_drafter(next.config, drafter, next.target, {}), "fc.weight")
                  .equal(param_of(*read_drafter_folder(first.checkpoint).drafter, "fc.weight")));
  EXPECT_EQ(run_until(next, -1, false).steps, 1);
  next.config.draft.intermediate_size = 48;
  next.config.output += "2";
  EXPECT_NE(refusal([&] { run_until(next, -1, false); }).find("draft.intermediate_size"), std::string::npos);
}

TEST(Train, AStartFromAFolderKeepsTheRunsBlockSizeAndVocabulary) {
  TinyRun run("folder_start"), next("folder_start_next");
  run.config.train.max_steps = 2;
  const TrainSummary first = run_until(run, -1, false);
  next.config.draft.init = DraftInit::from_folder(first.checkpoint.string());
  next.config.draft.block_size = run.config.draft.block_size - 1;
  next.config.draft.vocab_size = 32;
  next.config.train.max_steps = 2;
  std::vector<std::string> notices;
  const TrainSummary second = run_until(next, 1, false, &notices);
  const LoadedDrafter saved = read_drafter_folder(second.checkpoint);
  EXPECT_EQ(saved.config().block_size, next.config.draft.block_size);
  EXPECT_EQ(saved.config().head_rows(), 32);
  EXPECT_EQ(saved.vocab.ids.size(), 32u);
  EXPECT_EQ(run_until(next, -1, true).steps, 2);
}

TEST(Train, AStartFromADrafterOfAnotherMaskIsRefused) {
  TinyRun run("causal_start"), next("causal_start_next");
  run.config.train.max_steps = 1;
  const TrainSummary first = run_until(run, -1, false);
  const std::filesystem::path config = first.checkpoint / "config.json";
  std::string text = read_text_file(config);
  text.insert(text.find('{') + 1, "\"is_causal\": true,");
  write_text_file(config, text);
  next.config.draft.init = DraftInit::from_folder(first.checkpoint.string());
  EXPECT_NE(refusal([&] { run_until(next, -1, false); }).find("is_causal"), std::string::npos);
}

TEST(Train, SaysWhichAttentionItRunsOn) {
  TinyRun run("attention");
  run.config.train.max_steps = 1;
  std::vector<std::string> notices;
  run_until(run, -1, false, &notices);
  EXPECT_TRUE(std::any_of(notices.begin(), notices.end(),
                          [](const std::string& n) { return n.starts_with("attention: fused kernels ("); }));
}

}  // namespace
}  // namespace draftsmith
