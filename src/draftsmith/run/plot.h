// OUTPUT/plot.svg from OUTPUT/metrics.jsonl: the loss and the accepted length over the minutes of training, one
// self-contained picture.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace draftsmith {

// A measurement that metrics.jsonl does not hold, e.g. tau from decoding; drawn in the panel of the accepted length.
struct PlotPoint {
  double minutes = 0;
  double value = 0;
  std::string label;  // e.g. "tau 1.84"
};

struct PlotOptions {
  std::string title;
  std::vector<PlotPoint> points = {};
};

// Returns the file. A run without a line of metrics gives a picture that says so.
std::filesystem::path write_plot(const std::filesystem::path& output, const PlotOptions& options);

}  // namespace draftsmith
