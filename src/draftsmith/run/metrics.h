// A run records its figures while it trains: in OUTPUT/metrics.jsonl (one object a line) and in TensorBoard events.
// A line of training covers the steps since the last one; lines with "eval_loss" are measurements on held-out
// documents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "draftsmith/draft/loss.h"
#include "draftsmith/run/tensorboard.h"

namespace draftsmith {

struct Figures {
  double loss = 0;
  double accuracy = 0;
  std::vector<double> accuracy_per_slot;  // slots 1 .. B-1
  double accepted_length = 0;             // mean of A + 1 over the blocks with any label
  double weight_sum = 0;
};
Figures figures_of(const LossSums& sums);

struct TrainLine {
  std::int64_t step = 0;  // steps done
  std::int64_t epoch = 0;
  Figures figures;
  double learning_rate = 0;
  double grad_norm = 0;
  double tokens_per_second = 0;
  double seconds = 0;  // of training so far, all sessions of the run
};
struct EvalLine {
  std::int64_t step = 0;
  Figures figures;
  double seconds = 0;
};

class MetricsLog {
 public:
  // done_steps > 0: the run is resumed there; lines of later steps are cut off and the file is appended to.
  MetricsLog(const std::filesystem::path& output, std::int64_t done_steps);
  void add(const TrainLine& line);
  void add(const EvalLine& line);

 private:
  void write(const std::string& line);
  std::filesystem::path file_;
  std::ofstream out_;
  EventWriter events_;
};

}  // namespace draftsmith
