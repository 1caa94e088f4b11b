// Two panels drawn as text. It knows how to scale and label axes, and nothing of training.
#include "curves_svg.hpp"

#include <algorithm>
#include <cmath>

#include "format.hpp"
#include "svg.hpp"

namespace dlprim::cli {
namespace {

constexpr const char* kBlue = "#2563a8";
constexpr const char* kOrange = "#d9691e";
constexpr const char* kPale = "#a9c4e2";
constexpr const char* kInk = "#333333";
constexpr const char* kGrid = "#e4e4e4";

struct Point {
  double x, y;
};

/// A rectangle with axes: numbers in, SVG out.
class Panel {
 public:
  Panel(double left, double top, double width, double height, double x0, double x1, double y0, double y1)
      : left_(left), top_(top), width_(width), height_(height), x0_(x0), x1_(x1), y0_(y0), y1_(y1) {}

  double px(double x) const { return left_ + width_ * (x - x0_) / (x1_ - x0_); }
  double py(double y) const { return top_ + height_ * (1 - (std::clamp(y, y0_, y1_) - y0_) / (y1_ - y0_)); }

  std::string axes(const std::string& title, const std::string& x_label, double x_step, double y_step,
                   const char* y_pattern) const {
    std::string out = text_at(left_, top_ - 16, "class=\"title\"", title);
    for (double y = first_tick(y0_, y_step); y <= y1_ + 1e-9; y += y_step) {
      out += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", left_, py(y),
                    left_ + width_, py(y), kGrid);
      out += text_at(left_ - 8, py(y) + 4, "text-anchor=\"end\"", format(y_pattern, y));
    }
    const double bottom = top_ + height_;
    for (double x = first_tick(x0_, x_step); x <= x1_ + 1e-9; x += x_step) {
      out += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", px(x), bottom,
                    px(x), bottom + 5, kInk);
      out += text_at(px(x), bottom + 20, "text-anchor=\"middle\"", format("%g", x));
    }
    out += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", left_, bottom,
                  left_ + width_, bottom, kInk);
    return out + text_at(left_ + width_ / 2, bottom + 42, "text-anchor=\"middle\"", x_label);
  }

  std::string line(const std::vector<Point>& points, const char* colour, double thickness) const {
    std::string out = format(
        "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%g\" stroke-linejoin=\"round\" points=\"",
        colour, thickness);
    for (const Point& p : points)
      if (std::isfinite(p.y)) out += format("%.1f,%.1f ", px(p.x), py(p.y));
    return out + "\"/>\n";
  }
  std::string dots(const std::vector<Point>& points, const char* colour) const {
    std::string out;
    for (const Point& p : points)
      if (std::isfinite(p.y))
        out += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", px(p.x), py(p.y), colour);
    return out;
  }
  /// The `row`-th entry of a legend in the corner where no curve goes: above for falling curves, below for
  /// rising ones.
  std::string legend(int row, bool above, const char* colour, const std::string& text) const {
    const double x = left_ + width_ - 160, y = (above ? top_ + 14 : top_ + height_ - 34) + 20 * row;
    return format(
               "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"3\"/>\n",
               x, y, x + 22, y, colour) +
           text_at(x + 30, y + 4, "", text);
  }

 private:
  double left_, top_, width_, height_, x0_, x1_, y0_, y1_;
};

/// Means over equal parts, so that a long run does not make a large file.
std::vector<Point> thinned(const std::vector<double>& values, double epochs, size_t most) {
  std::vector<Point> points;
  const size_t parts = std::min(values.size(), most);
  for (size_t i = 0; i < parts; i++) {
    const size_t begin = i * values.size() / parts, end = (i + 1) * values.size() / parts;
    double sum = 0;
    for (size_t j = begin; j < end; j++) sum += values[j];
    points.push_back({epochs * static_cast<double>(begin + end) / 2 / static_cast<double>(values.size()),
                      sum / static_cast<double>(end - begin)});
  }
  return points;
}

/// An exponential mean that looks back over about a fiftieth of the run, free of the bias of its start.
std::vector<double> smoothed(const std::vector<double>& values) {
  const double keep = 1 - 1 / std::max(2.0, static_cast<double>(values.size()) / 50);
  std::vector<double> result;
  double sum = 0, weight = 0;
  for (double v : values) {
    sum = keep * sum + (1 - keep) * v;
    weight = keep * weight + (1 - keep);
    result.push_back(sum / weight);
  }
  return result;
}

std::vector<Point> per_epoch(const std::vector<double>& values, double factor) {
  std::vector<Point> points;
  for (double v : values) points.push_back({static_cast<double>(points.size() + 1), v * factor});
  return points;
}

std::string loss_panel(const Curves& curves, double epochs) {
  // A few wild steps at the start must not press the rest flat.
  std::vector<double> sorted = curves.step_losses;
  std::sort(sorted.begin(), sorted.end());
  double top = sorted.empty() ? 1 : sorted[sorted.size() * 99 / 100] * 1.05;
  for (double loss : curves.test_losses) top = std::max(top, loss * 1.05);
  if (!std::isfinite(top) || top <= 0) top = 1;
  const double step = tick_step(top, 5);
  top = std::ceil(top / step) * step;
  const Panel panel(70, 100, 400, 250, 0, epochs, 0, top);
  return panel.axes("Loss", "epoch", tick_step(epochs, 6), step, "%g") +
         panel.line(thinned(curves.step_losses, epochs, 800), kPale, 1) +
         panel.line(thinned(smoothed(curves.step_losses), epochs, 400), kBlue, 2.5) +
         panel.line(per_epoch(curves.test_losses, 1), kOrange, 2) +
         panel.dots(per_epoch(curves.test_losses, 1), kOrange) +
         panel.legend(0, true, kPale, "training, each step") +
         panel.legend(1, true, kBlue, "training, smoothed") + panel.legend(2, true, kOrange, "test");
}

std::string accuracy_panel(const Curves& curves, double epochs) {
  double lowest = 1;
  for (const auto* values : {&curves.train_accuracies, &curves.test_accuracies})
    for (double v : *values) lowest = std::min(lowest, v);
  const double bottom = std::max(0.0, std::floor((100 * lowest - 2) / 5) * 5);
  const double first = epochs > 1 ? 1 : 0.5, last = epochs > 1 ? epochs : 1.5;
  const Panel panel(550, 100, 340, 250, first, last, bottom, 100);
  const std::vector<Point> test = per_epoch(curves.test_accuracies, 100),
                           train = per_epoch(curves.train_accuracies, 100);
  std::string out = panel.axes("Accuracy, %", "epoch", std::max(1.0, tick_step(epochs, 8)),
                               tick_step(100 - bottom, 5), "%g") +
                    panel.line(train, kBlue, 2) + panel.dots(train, kBlue) + panel.line(test, kOrange, 2.5) +
                    panel.dots(test, kOrange) + panel.legend(0, false, kBlue, "training") +
                    panel.legend(1, false, kOrange, "test");
  if (!test.empty())
    out += text_at(panel.px(test.back().x) + 8, panel.py(test.back().y) + 4, "class=\"value\"",
                   format("%.1f", test.back().y));
  return out;
}

}  // namespace

std::string curves_svg(const Curves& curves) {
  const double epochs = std::max<double>(1, static_cast<double>(curves.test_accuracies.size()));
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 420\" width=\"960\" height=\"420\" "
      "role=\"img\">\n"
      "<style>text{font:13px system-ui,'Helvetica Neue',Arial,sans-serif;fill:#333333}"
      ".head{font-size:18px;font-weight:600}.title{font-size:14px;font-weight:600}"
      ".note{fill:#707070}.value{font-weight:600;fill:#d9691e}</style>\n"
      "<rect width=\"960\" height=\"420\" fill=\"#ffffff\"/>\n";
  out += text_at(30, 32, "class=\"head\"", curves.title);
  out += text_at(30, 54, "class=\"note\"", curves.subtitle);
  return out + loss_panel(curves, epochs) + accuracy_panel(curves, epochs) + "</svg>\n";
}

}  // namespace dlprim::cli
