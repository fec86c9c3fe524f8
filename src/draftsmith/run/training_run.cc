#include "draftsmith/run/training_run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>

#include "draftsmith/base/check.h"
#include "draftsmith/config/yaml.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/nn/attention.h"
#include "draftsmith/run/checkpoint.h"
#include "draftsmith/run/metrics.h"
#include "draftsmith/run/pace.h"
#include "draftsmith/run/plot.h"
#include "draftsmith/run/resume.h"
#include "draftsmith/run/start.h"
#include "draftsmith/store/files.h"
#include "draftsmith/train/schedule.h"
#include "draftsmith/train/trainer.h"

namespace draftsmith {
namespace {

using Clock = std::chrono::steady_clock;
// train.max_minutes fixes the number of steps from the pace of so many.
constexpr std::int64_t kMeasuredSteps = 20;

class Run {
 public:
  Run(const RunConfig& config, Target& target, const DataFolder& data, const DrafterConfig& drafter,
      const TrainHooks& hooks)
      : config_(config), target_(target), data_(data), drafter_(drafter), hooks_(hooks) {}

  TrainSummary operator()(bool resume) {
    begin(resume);
    fix_steps_before_the_first();
    write_run_yaml();
    loop();
    if (!summary_.stopped_early) finish();
    if (summary_.checkpoint.empty() || saved_step_ != trainer_->num_steps()) save();
    write_plot(config_.output, {.title = plot_title()});
    summary_.steps = trainer_->num_steps();
    summary_.total_steps = state_.total_steps;
    summary_.minutes = seconds() / 60;
    return summary_;
  }

 private:
  void begin(bool resume);
  void take_over(const std::filesystem::path& checkpoint, LoadedDrafter& start);
  void tell_vocab(const DraftVocab& vocab) const;
  void fix_steps_before_the_first();
  void fit_steps();
  std::int64_t steps_in_time(const Pace& pace) const;
  double seconds_left() const;
  Schedule schedule() const;
  void write_run_yaml() const;
  void loop();
  void after_step(const StepReport& report, double rate);
  void log(const StepReport& report, double rate);
  void evaluate();
  void finish();
  void save();
  std::string plot_title() const;
  void notice(const std::string& text) const {
    if (hooks_.notice) hooks_.notice(text);
  }
  // Of training so far, earlier sessions included.
  double seconds() const { return earlier_seconds_ + std::chrono::duration<double>(Clock::now() - start_).count(); }

  const RunConfig& config_;
  Target& target_;
  const DataFolder& data_;
  const DrafterConfig& drafter_;
  const TrainHooks& hooks_;
  const Clock::time_point start_ = Clock::now();
  std::optional<FolderLock> lock_;  // of the output
  double earlier_seconds_ = 0;
  TrainState state_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<MetricsLog> metrics_;
  TrainSummary summary_;
  std::int64_t saved_step_ = -1;
  std::unique_ptr<PaceMeter> pace_;
  std::int64_t session_steps_ = 0;
  // Since the last line of metrics.
  LossSums window_;
  std::int64_t window_tokens_ = 0;
  double window_start_ = 0;
};

void Run::begin(bool resume) {
  const std::filesystem::path output = config_.output;
  require_writable_folder(output);
  lock_.emplace(output);
  require_writable_folder(output / "checkpoints");
  if (config_.threads > 0) at::set_num_threads(static_cast<int>(config_.threads));
  const std::optional<std::filesystem::path> latest = latest_checkpoint(output, resume ? hooks_.notice : NoticeFn());
  require(resume || !latest, output.string(),
          " holds checkpoints of an earlier run; continue it with --resume, choose another "
          "`output`, or delete the folder");
  if (resume && !latest) notice(text_of("no checkpoint in ", output.string(), " yet; starting from the beginning"));

  for (const DataSet* set : {&data_.train, &data_.eval})
    require(set->largest_id() < drafter_.vocab_size, config_.data.path, " holds the token ", set->largest_id(),
            ", and the target's embedding has rows 0 .. ", drafter_.vocab_size - 1);
  state_.warmup = config_.train.warmup;
  state_.seed = config_.seed;
  state_.config = run_config_to_yaml(config_);
  state_.data_digest = digest_of(data_.train);
  state_.tokenizer_digest = data_.train.tokenizer_digest;
  state_.target = target_.info().name;
  LoadedDrafter start;
  if (latest) {
    take_over(*latest, start);
  } else {
    start.drafter = starting_drafter(config_, drafter_, target_, hooks_.notice);
    start.vocab = most_frequent_ids(data_.train, drafter_.draft_vocab_size, drafter_.vocab_size);
  }
  notice("attention: " + attention_kernels());
  tell_vocab(start.vocab);
  trainer_ = std::make_unique<Trainer>(TrainerParts{.config = config_,
                                                    .drafter = std::move(start.drafter),
                                                    .target = target_,
                                                    .data = data_,
                                                    .vocab = std::move(start.vocab),
                                                    .notice = hooks_.notice});
  if (latest) read_optimizer(*latest, state_, trainer_->optimizer());
  pace_ = std::make_unique<PaceMeter>(config_.train, num_parameters(trainer_->drafter()),
                                      trainer_->held_out().num_tokens());
  metrics_ = std::make_unique<MetricsLog>(output, state_.step);
}

void Run::take_over(const std::filesystem::path& checkpoint, LoadedDrafter& start) {
  const TrainState stored = read_train_state(checkpoint);
  start = read_drafter_folder(checkpoint, place_of(config_.train.compute));
  const bool same_steps = check_resume({.checkpoint = checkpoint,
                                        .state = stored,
                                        .stored_drafter = start.config(),
                                        .config = config_,
                                        .drafter = drafter_,
                                        .data = data_.train,
                                        .target = target_.info().name},
                                       hooks_.notice);
  if (same_steps) state_.total_steps = stored.total_steps;
  if (run_config_from_yaml(stored.config, checkpoint.string() + "/state.json", {}).train.warmup == config_.train.warmup)
    state_.warmup = stored.warmup;
  state_.step = stored.step;
  state_.tokens = stored.tokens;
  earlier_seconds_ = stored.seconds;
  summary_.checkpoint = checkpoint;
  saved_step_ = stored.step;
  notice(text_of("resuming from ", checkpoint.string(), ", ", stored.step, " steps done"));
}

void Run::tell_vocab(const DraftVocab& vocab) const {
  if (vocab.whole()) return;
  std::string text =
      fmt::format("drafting from {} of {} ids: {:.2f} % of the training labels have none of them", vocab.ids.size(),
                  drafter_.vocab_size, 100 * share_outside(data_.train, vocab, drafter_.vocab_size));
  if (data_.eval.num_documents() > 0)
    text += fmt::format(", {:.2f} % of the held-out ones", 100 * share_outside(data_.eval, vocab, drafter_.vocab_size));
  notice(text);
}

// Known at once, or (max_minutes) after kMeasuredSteps. Until then the learning rate may not depend on the number of
// all steps, so that the run can be repeated from run.yaml: a rehearsal of one row gives a first guess, the rise gets a
// fixed number of steps from it, and that number is what run.yaml records.
void Run::fix_steps_before_the_first() {
  if (state_.total_steps > 0) return;
  if (config_.train.max_minutes <= 0) {
    state_.total_steps = trainer_->rows().num_steps();
    return;
  }
  if (!trainer_->rows().has(state_.step)) {
    state_.total_steps = std::max<std::int64_t>(state_.step, 1);
    return;
  }
  trainer_->rehearse();  // the first pass of a process is slower than all others
  const StepReport report = trainer_->rehearse();
  pace_->add(report.rows, report.seconds);
  const std::int64_t guess = steps_in_time(pace_->pace(trainer_->features()));
  pace_->forget();
  if (guess - state_.step <= kMeasuredSteps) {
    state_.total_steps = std::max(guess, state_.step);
    notice(text_of("fitted to ", config_.train.max_minutes, " minutes: ", state_.total_steps, " steps"));
  } else if (state_.warmup < kMeasuredSteps) {
    const std::int64_t rise = warmup_steps({.warmup = state_.warmup, .total_steps = guess});
    state_.warmup = static_cast<double>(std::max(rise, kMeasuredSteps));
  }
}

void Run::fit_steps() {
  const Pace measured = pace_->pace(trainer_->features());
  state_.total_steps = steps_in_time(measured);
  notice(fmt::format("fitted to {:g} minutes: {} steps ({:.2f} s a row, {:.2f} s for 1000 new tokens of the target)",
                     config_.train.max_minutes, state_.total_steps, measured.seconds_a_row,
                     1000 * measured.seconds_a_token));
  write_run_yaml();
}

std::int64_t Run::steps_in_time(const Pace& pace) const {
  const double left = config_.train.max_minutes * 60 - seconds() - pace_->seconds_at_end(pace);
  return steps_that_fit(trainer_->rows(), trainer_->features(), pace, trainer_->num_steps(), left);
}

// Negative while the number of steps is open.
double Run::seconds_left() const {
  if (state_.total_steps == 0) return -1;
  const Pace pace = pace_->pace(trainer_->features());
  const auto steps = static_cast<double>(state_.total_steps - trainer_->num_steps());
  const double rows = steps * pace_->rows_a_step();
  return seconds_of_rows(trainer_->rows().epoch_size(), trainer_->features(), pace, rows, steps) +
         pace_->seconds_at_end(pace);
}

Schedule Run::schedule() const {
  return {.peak = config_.train.learning_rate,
          .floor = config_.train.min_learning_rate,
          .warmup = state_.warmup,
          // While the number of steps is open the rise is still going on, and it does not depend on it.
          .total_steps = state_.total_steps > 0 ? state_.total_steps : std::numeric_limits<std::int64_t>::max() / 2};
}

void Run::write_run_yaml() const {
  RunConfig resolved = config_;
  if (config_.train.max_minutes > 0 && state_.total_steps > 0) {
    resolved.train.max_steps = state_.total_steps;
    resolved.train.max_minutes = 0;
    resolved.train.warmup = state_.warmup;
  }
  write_text_file(std::filesystem::path(config_.output) / "run.yaml", run_config_to_yaml(resolved));
}

void Run::loop() {
  window_start_ = seconds();
  while (state_.total_steps == 0 || trainer_->num_steps() < state_.total_steps) {
    if (hooks_.stop_requested && hooks_.stop_requested()) {
      summary_.stopped_early = true;
      return;
    }
    const double rate = learning_rate(schedule(), trainer_->num_steps());
    after_step(trainer_->step(rate), rate);
  }
}

void Run::after_step(const StepReport& report, double rate) {
  const TrainConfig& train = config_.train;
  const std::int64_t step = trainer_->num_steps();
  ++session_steps_;
  pace_->add(report.rows, report.seconds);
  window_.add(report.sums);
  window_tokens_ += report.tokens;
  state_.tokens += report.tokens;
  if (state_.total_steps == 0 && (session_steps_ >= kMeasuredSteps || !trainer_->rows().has(step))) fit_steps();
  const auto due = [&](std::int64_t every) { return every > 0 && step % every == 0; };
  const bool last = step == state_.total_steps;
  const bool stop = hooks_.stop_requested && hooks_.stop_requested();
  // A line before each checkpoint, so that no window crosses one and a resumed run writes the same lines.
  if (last || stop || due(train.log_every) || due(train.save_every)) log(report, rate);
  if (!last && due(train.eval_every)) evaluate();
  if (!last && due(train.save_every)) save();
}

void Run::log(const StepReport& report, double rate) {
  TrainLine line;
  line.step = trainer_->num_steps();
  line.epoch = report.epoch;
  line.figures = figures_of(window_);
  line.learning_rate = rate;
  line.grad_norm = report.grad_norm;
  line.seconds = seconds();
  line.tokens_per_second = static_cast<double>(window_tokens_) / std::max(line.seconds - window_start_, 1e-9);
  metrics_->add(line);
  summary_.loss = line.figures.loss;
  summary_.accuracy = line.figures.accuracy;
  summary_.accepted_length = line.figures.accepted_length;
  summary_.accuracy_per_slot = line.figures.accuracy_per_slot;
  if (hooks_.progress) {
    const std::string text =
        fmt::format("loss {:.3f}  acc {:.3f}  accepted {:.2f}  lr {:.1e}  {:.0f} tok/s", line.figures.loss,
                    line.figures.accuracy, line.figures.accepted_length, rate, line.tokens_per_second);
    hooks_.progress({.done = line.step,
                     .total = state_.total_steps,
                     .unit = "steps",
                     .detail = text,
                     .seconds_left = seconds_left()});
  }
  window_ = LossSums();
  window_tokens_ = 0;
  window_start_ = line.seconds;
}

void Run::evaluate() {
  const LossSums sums = trainer_->evaluate();
  if (sums.num_blocks <= 0) return;
  const EvalLine line{.step = trainer_->num_steps(), .figures = figures_of(sums), .seconds = seconds()};
  metrics_->add(line);
  summary_.eval_loss = line.figures.loss;
  summary_.eval_accuracy = line.figures.accuracy;
  summary_.eval_accepted_length = line.figures.accepted_length;
  window_start_ = seconds();
}

void Run::finish() {
  require(trainer_->num_steps() > 0,
          "the run has no step: train.max_steps, train.epochs and the data allow none; raise them");
  if (session_steps_ > 0) {
    if (trainer_->held_out().num_documents() > 0)
      notice(text_of("measuring the loss of ", trainer_->held_out().num_documents(), " held-out documents"));
    return evaluate();
  }
  notice(text_of("nothing left to do: ", trainer_->num_steps(), " of ", state_.total_steps, " steps are done"));
}

void Run::save() {
  state_.step = trainer_->num_steps();
  state_.seconds = seconds();
  const bool more = trainer_->rows().has(state_.step);
  const StepRows next = more ? trainer_->rows().at(state_.step) : StepRows{.epoch = config_.train.epochs};
  state_.epoch = next.epoch;
  state_.row = next.first_row;
  summary_.checkpoint = save_checkpoint(
      config_.output,
      {.state = state_, .drafter = trainer_->drafter(), .vocab = trainer_->vocab(), .optimizer = trainer_->optimizer()},
      config_.train.keep_checkpoints);
  saved_step_ = state_.step;
}

std::string Run::plot_title() const {
  return text_of(target_.info().name, ": drafter of ", drafter_.num_layers, " layers, block ", drafter_.block_size);
}

}  // namespace

TrainSummary train(const RunConfig& config, Target& target, const DataFolder& data, const DrafterConfig& drafter,
                   bool resume, const TrainHooks& hooks) {
  return Run(config, target, data, drafter, hooks)(resume);
}

}  // namespace draftsmith
