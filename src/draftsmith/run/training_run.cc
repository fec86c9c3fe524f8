#include "draftsmith/run/training_run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "draftsmith/base/check.h"
#include "draftsmith/config/yaml.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/nn/attention.h"
#include "draftsmith/run/checkpoint.h"
#include "draftsmith/run/metrics.h"
#include "draftsmith/run/resume.h"
#include "draftsmith/run/run_folder.h"
#include "draftsmith/run/start.h"
#include "draftsmith/run/step_budget.h"
#include "draftsmith/train/trainer.h"

namespace draftsmith {
namespace {

class TrainingRun {
 public:
  TrainingRun(const TrainInputs& inputs, const TrainHooks& hooks)
      : config_(inputs.config),
        target_(inputs.target),
        data_(inputs.data),
        drafter_(inputs.drafter),
        ranks_(inputs.ranks),
        hooks_(hooks) {}

  TrainSummary operator()(bool resume) {
    begin(resume);
    budget_->begin();
    write_run_yaml();
    loop();
    if (!summary_.stopped_early) finish();
    if (summary_.checkpoint.empty() || saved_step_ != trainer_->num_steps()) save();
    if (folder_) folder_->plot(plot_title());
    summary_.steps = trainer_->num_steps();
    summary_.total_steps = budget_->total_steps();
    summary_.minutes = clock_.seconds() / 60;
    return summary_;
  }

 private:
  void begin(bool resume);
  void check_ids() const;
  TrainState new_state() const;
  LoadedDrafter first_drafter() const;
  LoadedDrafter take_over(const std::filesystem::path& checkpoint);
  void tell_vocab(const DraftVocab& vocab) const;
  void make_trainer(LoadedDrafter start);
  void write_run_yaml() const;
  bool stop_requested();
  void loop();
  void after_step(const StepReport& report, double rate);
  void log(const StepReport& report, double rate);
  void tell_progress(const TrainLine& line) const;
  void evaluate();
  void finish();
  void save();
  std::string plot_title() const;
  void notice(const std::string& text) const {
    if (hooks_.notice) hooks_.notice(text);
  }

  const RunConfig& config_;
  Target& target_;
  const DataFolder& data_;
  const DrafterConfig& drafter_;
  Ranks& ranks_;
  const TrainHooks& hooks_;
  TrainingClock clock_;
  std::optional<RunFolder> folder_;  // of the first rank
  TrainState state_;
  std::optional<Trainer> trainer_;
  std::optional<StepBudget> budget_;
  TrainSummary summary_;
  std::int64_t saved_step_ = -1;
  // Since the last line of metrics.
  LossSums window_;
  std::int64_t window_tokens_ = 0;
  double window_start_ = 0;
};

void TrainingRun::begin(bool resume) {
  const std::filesystem::path output = config_.output;
  if (ranks_.first()) folder_.emplace(output);
  if (config_.threads > 0) at::set_num_threads(static_cast<int>(config_.threads));
  const std::optional<std::filesystem::path> latest = latest_checkpoint(output, resume ? hooks_.notice : NoticeFn());
  require(resume || !latest, output.string(),
          " holds checkpoints of an earlier run; continue it with --resume, choose another "
          "`output`, or delete the folder");
  if (resume && !latest) notice(text_of("no checkpoint in ", output.string(), " yet; starting from the beginning"));
  check_ids();
  state_ = new_state();
  make_trainer(latest ? take_over(*latest) : first_drafter());
  if (latest) read_optimizer(*latest, state_, trainer_->optimizer());
  budget_.emplace(StepBudget::Parts{.config = config_,
                                    .trainer = *trainer_,
                                    .ranks = ranks_,
                                    .clock = clock_,
                                    .notice = hooks_.notice,
                                    .total_steps = state_.total_steps,
                                    .warmup = state_.warmup});
  if (folder_) folder_->open_metrics(state_.step);
}

void TrainingRun::check_ids() const {
  for (const DataSet* set : {&data_.train, &data_.eval})
    require(set->largest_id() < drafter_.vocab_size, config_.data.path, " holds the token ", set->largest_id(),
            ", and the target's embedding has rows 0 .. ", drafter_.vocab_size - 1);
}

TrainState TrainingRun::new_state() const {
  TrainState state;
  state.warmup = config_.train.warmup;
  state.seed = config_.seed;
  state.config = run_config_to_yaml(config_);
  state.data_digest = digest_of(data_.train);
  state.tokenizer_digest = data_.train.tokenizer_digest;
  state.target = target_.info().name;
  return state;
}

LoadedDrafter TrainingRun::first_drafter() const {
  return {.drafter = starting_drafter(config_, drafter_, target_, hooks_.notice),
          .vocab = most_frequent_ids(data_.train, drafter_.draft_vocab_size, drafter_.vocab_size)};
}

LoadedDrafter TrainingRun::take_over(const std::filesystem::path& checkpoint) {
  const TrainState stored = read_train_state(checkpoint);
  LoadedDrafter start = read_drafter_folder(checkpoint, place_of(config_.train.compute));
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
  clock_.add_earlier(stored.seconds);
  summary_.checkpoint = checkpoint;
  saved_step_ = stored.step;
  notice(text_of("resuming from ", checkpoint.string(), ", ", stored.step, " steps done"));
  return start;
}

void TrainingRun::tell_vocab(const DraftVocab& vocab) const {
  if (vocab.whole()) return;
  std::string text =
      fmt::format("draft vocabulary: {} of {} ids; {:.2f} % of the training labels are outside it", vocab.ids.size(),
                  drafter_.vocab_size, 100 * share_outside(data_.train, vocab, drafter_.vocab_size));
  if (data_.eval.num_documents() > 0)
    text +=
        fmt::format(", and {:.2f} % of the held-out ones", 100 * share_outside(data_.eval, vocab, drafter_.vocab_size));
  notice(text);
}

void TrainingRun::make_trainer(LoadedDrafter start) {
  notice("attention: " + attention_kernels());
  tell_vocab(start.vocab);
  trainer_.emplace(TrainerParts{.config = config_,
                                .drafter = std::move(start.drafter),
                                .target = target_,
                                .data = data_,
                                .ranks = ranks_,
                                .vocab = std::move(start.vocab),
                                .notice = hooks_.notice});
}

void TrainingRun::write_run_yaml() const {
  if (folder_) folder_->write_run_yaml(budget_->resolved());
}

bool TrainingRun::stop_requested() { return ranks_.agree(hooks_.stop_requested && hooks_.stop_requested()); }

void TrainingRun::loop() {
  window_start_ = clock_.seconds();
  while (!budget_->done()) {
    if (stop_requested()) {
      summary_.stopped_early = true;
      return;
    }
    const double rate = budget_->learning_rate();
    after_step(trainer_->step(rate), rate);
  }
}

void TrainingRun::after_step(const StepReport& report, double rate) {
  const TrainConfig& train = config_.train;
  const std::int64_t step = trainer_->num_steps();
  window_.add(report.sums);
  window_tokens_ += report.tokens;
  state_.tokens += report.tokens;
  if (budget_->count(report)) write_run_yaml();
  const auto due = [&](std::int64_t every) { return every > 0 && step % every == 0; };
  const bool last = step == budget_->total_steps();
  const bool stop = stop_requested();
  // A line before each checkpoint, so that no window crosses one and a resumed run writes the same lines.
  if (last || stop || due(train.log_every) || due(train.save_every)) log(report, rate);
  if (!last && due(train.eval_every)) evaluate();
  if (!last && due(train.save_every)) save();
}

void TrainingRun::log(const StepReport& report, double rate) {
  TrainLine line;
  line.step = trainer_->num_steps();
  line.epoch = report.epoch;
  line.figures = figures_of(window_);
  line.learning_rate = rate;
  line.grad_norm = report.grad_norm;
  line.seconds = clock_.seconds();
  line.tokens_per_second = static_cast<double>(window_tokens_) / std::max(line.seconds - window_start_, 1e-9);
  if (folder_) folder_->add(line);
  summary_.loss = line.figures.loss;
  summary_.accuracy = line.figures.accuracy;
  summary_.accepted_length = line.figures.accepted_length;
  summary_.accuracy_per_slot = line.figures.accuracy_per_slot;
  tell_progress(line);
  window_ = LossSums();
  window_tokens_ = 0;
  window_start_ = line.seconds;
}

void TrainingRun::tell_progress(const TrainLine& line) const {
  if (!hooks_.progress) return;
  const Figures& figures = line.figures;
  hooks_.progress(
      {.done = line.step,
       .total = budget_->total_steps(),
       .unit = "steps",
       .detail = fmt::format("loss {:.3f}  acc {:.3f}  accepted {:.2f}  lr {:.1e}  {:.0f} tok/s", figures.loss,
                             figures.accuracy, figures.accepted_length, line.learning_rate, line.tokens_per_second),
       .seconds_left = budget_->seconds_left()});
}

void TrainingRun::evaluate() {
  const LossSums sums = trainer_->evaluate();
  if (sums.num_blocks <= 0) return;
  const EvalLine line{.step = trainer_->num_steps(), .figures = figures_of(sums), .seconds = clock_.seconds()};
  if (folder_) folder_->add(line);
  summary_.eval_loss = line.figures.loss;
  summary_.eval_accuracy = line.figures.accuracy;
  summary_.eval_accepted_length = line.figures.accepted_length;
  window_start_ = clock_.seconds();
}

void TrainingRun::finish() {
  require(trainer_->num_steps() > 0,
          "the run has no step: train.max_steps, train.epochs and the data allow none; raise them");
  if (budget_->session_steps() > 0) {
    if (trainer_->held_out().num_documents() > 0)
      notice(text_of("measuring the loss of ", trainer_->held_out().num_documents(), " held-out documents"));
    return evaluate();
  }
  notice(text_of("nothing left to do: ", trainer_->num_steps(), " of ", budget_->total_steps(), " steps are done"));
}

void TrainingRun::save() {
  state_.step = trainer_->num_steps();
  state_.total_steps = budget_->total_steps();
  state_.warmup = budget_->warmup();
  state_.seconds = clock_.seconds();
  const bool more = trainer_->schedule().has(state_.step);
  const StepPacks next = more ? trainer_->schedule().at(state_.step) : StepPacks{.epoch = config_.train.epochs};
  state_.epoch = next.epoch;
  state_.pack = next.first_pack;
  const CheckpointParts parts{
      .state = state_, .drafter = trainer_->drafter(), .vocab = trainer_->vocab(), .optimizer = trainer_->optimizer()};
  if (folder_) folder_->save(parts, config_.train.keep_checkpoints);
  summary_.checkpoint = checkpoint_folder(config_.output, state_.step);
  saved_step_ = state_.step;
}

std::string TrainingRun::plot_title() const {
  return text_of(target_.info().name, ": drafter of ", drafter_.num_layers, " layers, block ", drafter_.block_size);
}

}  // namespace

TrainSummary train(const TrainInputs& inputs, const TrainHooks& hooks) {
  const TrainHooks silent{.progress = {}, .notice = {}, .stop_requested = hooks.stop_requested};
  return TrainingRun(inputs, inputs.ranks.first() ? hooks : silent)(inputs.resume);
}

}  // namespace draftsmith
