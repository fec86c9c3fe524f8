#include "draftsmith/run/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "draftsmith/base/check.h"
#include "draftsmith/store/files.h"

namespace draftsmith {
namespace {

using Json = nlohmann::json;

// An untrained drafter's loss can be several times that of a uniform guess (about 11); the axis is for what comes
// after.
constexpr double kHighestLossShown = 15;

enum class LabelSide { kAbove, kBelow };

struct Point {
  double minutes = 0, value = 0;
};
struct Curves {
  std::vector<Point> loss, eval_loss, accepted, eval_accepted;
  std::int64_t steps = 0;
};

Curves read_curves(const std::filesystem::path& file) {
  Curves out;
  if (!std::filesystem::exists(file)) return out;
  std::istringstream in(read_text_file(file));
  for (std::string line; std::getline(in, line);) {
    const Json object = Json::parse(line, nullptr, false);
    if (!object.is_object()) continue;
    const auto number = [&](const char* key) {
      return object.contains(key) && object[key].is_number() ? object[key].get<double>() : std::nan("");
    };
    const double minutes = number("seconds") / 60;
    const auto add = [&](const char* key, std::vector<Point>& curve) {
      const double value = number(key);
      if (std::isfinite(minutes) && std::isfinite(value)) curve.push_back({minutes, value});
    };
    add("loss", out.loss);
    add("accepted_length", out.accepted);
    add("eval_loss", out.eval_loss);
    add("eval_accepted_length", out.eval_accepted);
    if (std::isfinite(number("step"))) out.steps = std::max(out.steps, static_cast<std::int64_t>(number("step")));
  }
  return out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

// Round numbers that divide low .. high into about `count` pieces.
struct Axis {
  double low = 0, high = 1, tick = 1;
  Axis(double from, double to, int count) {
    if (!(to > from)) to = from + 1;
    const double raw = (to - from) / count;
    const double power = std::pow(10.0, std::floor(std::log10(raw)));
    const double share = raw / power;
    tick = power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
    low = std::floor(from / tick + 1e-9) * tick;
    high = std::ceil(to / tick - 1e-9) * tick;
  }
};

std::string number_text(double value) { return fmt::format("{:.6g}", std::abs(value) < 1e-9 ? 0.0 : value); }

// One panel of the picture in pixels.
class Panel {
 public:
  Panel(std::string& svg, double top, const Axis& x, const Axis& y) : svg_(svg), top_(top), x_(x), y_(y) {}

  void frame(const std::string& caption) {
    for (double v = y_.low; v <= y_.high + y_.tick / 2; v += y_.tick) {
      line(kLeft, py(v), kRight, py(v), "#e4e4e4");
      text(kLeft - 8, py(v) + 4, "end", "#444", number_text(v));
    }
    for (double v = x_.low; v <= x_.high + x_.tick / 2; v += x_.tick) {
      line(px(v), top_ + kHeight, px(v), top_ + kHeight + 5, "#444");
      text(px(v), top_ + kHeight + 20, "middle", "#444", number_text(v));
    }
    line(kLeft, top_, kLeft, top_ + kHeight, "#444");
    line(kLeft, top_ + kHeight, kRight, top_ + kHeight, "#444");
    text(kLeft, top_ - 10, "start", "#111", caption);
  }
  void curve(const std::vector<Point>& points, const char* colour) {
    if (points.empty()) return;
    add("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" points=\"", colour);
    for (const Point& p : points) add("{:g},{:g} ", px(p.minutes), py(p.value));
    svg_ += "\"/>\n";
    if (points.size() == 1) dot(points[0], colour, "");
  }
  void dot(const Point& point, const char* colour, const std::string& label, LabelSide side = LabelSide::kAbove) {
    add("<circle cx=\"{:g}\" cy=\"{:g}\" r=\"4\" fill=\"{}\"/>\n", px(point.minutes), py(point.value), colour);
    const bool at_right = px(point.minutes) > 0.7 * kRight;
    text(px(point.minutes) + (at_right ? -8 : 8), py(point.value) + (side == LabelSide::kAbove ? -8 : 18),
         at_right ? "end" : "start", colour, label);
  }
  void text(double x, double y, const char* anchor, const char* colour, const std::string& words) {
    if (words.empty()) return;
    add("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n", x, y, anchor, colour, escaped(words));
  }
  static constexpr double kLeft = 64, kRight = 796, kHeight = 220;

 private:
  double px(double v) const { return kLeft + (v - x_.low) / (x_.high - x_.low) * (kRight - kLeft); }
  double py(double v) const {
    return top_ + kHeight - (std::clamp(v, y_.low, y_.high) - y_.low) / (y_.high - y_.low) * kHeight;
  }
  void line(double x1, double y1, double x2, double y2, const char* colour) {
    add("<line x1=\"{:g}\" y1=\"{:g}\" x2=\"{:g}\" y2=\"{:g}\" stroke=\"{}\"/>\n", x1, y1, x2, y2, colour);
  }
  template <class... Parts>
  void add(fmt::format_string<Parts...> format, Parts&&... parts) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Parts>(parts)...);
  }
  std::string& svg_;
  double top_;
  Axis x_, y_;
};

Axis value_axis(std::initializer_list<const std::vector<Point>*> curves, double low, double high) {
  for (const auto* curve : curves)
    for (const Point& point : *curve) {
      low = std::min(low, point.value);
      high = std::max(high, point.value);
    }
  return Axis(low, high, 5);
}

std::string picture(const Curves& curves, const PlotOptions& options) {
  std::vector<Point> extra;
  double end = 0;
  for (const PlotPoint& point : options.points) extra.push_back({point.minutes, point.value});
  for (const auto* curve : {&curves.loss, &curves.accepted, &curves.eval_loss, &curves.eval_accepted})
    if (!curve->empty()) end = std::max(end, curve->back().minutes);
  for (const Point& point : extra) end = std::max(end, point.minutes);

  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 820 640\" width=\"820\" height=\"640\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"820\" height=\"640\" fill=\"#ffffff\"/>\n";
  const Axis time(0, end > 0 ? end : 1, 8);
  Axis loss = value_axis({&curves.loss, &curves.eval_loss}, 0, 1e-3);
  if (loss.high > kHighestLossShown) loss = Axis(0, kHighestLossShown, 5);
  Panel above(svg, 76, time, loss);
  Panel below(svg, 362, time, value_axis({&curves.accepted, &curves.eval_accepted, &extra}, 1, 1.5));
  above.text(Panel::kLeft, 30, "start", "#111", options.title);
  above.frame("loss");
  above.curve(curves.loss, "#1f5fbf");
  for (const Point& point : curves.eval_loss)
    above.dot(
        point, "#b3541e",
        &point == &curves.eval_loss.back() ? "held out " + number_text(std::round(point.value * 1000) / 1000) : "");
  below.frame("accepted length (tokens a verification: drafts accepted + 1)");
  below.curve(curves.accepted, "#1f5fbf");
  for (const Point& point : curves.eval_accepted)
    below.dot(
        point, "#b3541e",
        &point == &curves.eval_accepted.back() ? "held out " + number_text(std::round(point.value * 100) / 100) : "");
  for (std::size_t i = 0; i < extra.size(); ++i)
    below.dot(extra[i], "#1d7a3a", options.points[i].label, LabelSide::kBelow);
  below.text(Panel::kRight, 622, "end", "#444", text_of("minutes of training (", curves.steps, " steps)"));
  if (curves.loss.empty()) above.text(430, 190, "middle", "#444", "no metrics were recorded");
  return svg + "</svg>\n";
}

}  // namespace

std::filesystem::path write_plot(const std::filesystem::path& output, const PlotOptions& options) {
  std::filesystem::path file = output / "plot.svg";
  write_text_file(file, picture(read_curves(output / "metrics.jsonl"), options));
  return file;
}

}  // namespace draftsmith
