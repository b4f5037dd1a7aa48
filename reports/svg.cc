// SPDX-License-Identifier: Apache-2.0
#include "reports/svg.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <utility>

#include "reports/text.h"

namespace mixerbench::reports {
namespace {

using Scale = ChartAxis::Scale;
using Format = ChartAxis::Format;

constexpr double kLabelGap = 14;      // between the baselines of two labels, pixels
constexpr double kDash = 26;          // a reference at one x
constexpr double kLetterWidth = 7.3;  // of the 11 px labels, on average
constexpr std::size_t kMaxTicks = 9;
constexpr std::size_t kMaxMarkers = 20;  // of a line; beyond, they hide it

double Forward(Scale scale, double v) {
  if (scale == Scale::kLog2) return std::log2(v);
  if (scale == Scale::kLog10) return std::log10(v);
  return v;
}

// Numbers from 0 on a logarithmic axis have no place.
bool Drawable(const ChartAxis& axis, double v) {
  return std::isfinite(v) && ((axis.scale != Scale::kLog2 && axis.scale != Scale::kLog10) || v > 0);
}

std::string TickLabel(const ChartAxis& axis, double v) {
  switch (axis.format) {
    case Format::kPercent:
      return fmt::format("{:.0f}", 100 * v);
    case Format::kBytes:
      return FormatBytes(static_cast<std::int64_t>(std::llround(v)));
    case Format::kSi:
      return FormatSi(v);
    case Format::kPlain:
      break;
  }
  if (axis.scale == Scale::kLog2 && v >= 16384) return fmt::format("{:.4g}K", v / 1024);
  return fmt::format("{:.6g}", v == 0 ? 0.0 : v);  // no "-0"
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void Include(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  bool empty() const { return low > high; }
};

std::vector<double> LinearTicks(const Range& range) {
  const double rough = (range.high - range.low) / 5;
  const double magnitude = std::pow(10, std::floor(std::log10(rough)));
  double step = magnitude;
  for (const double factor : {2.0, 5.0, 10.0}) {
    if (step < rough) step = factor * magnitude;
  }
  std::vector<double> ticks;
  const double first = std::ceil(range.low / step - 1e-9);
  for (double i = first; i * step <= range.high + 1e-9 * step; ++i) ticks.push_back(i * step);
  return ticks;
}

std::vector<double> Thinned(std::vector<double> ticks) {
  while (ticks.size() > kMaxTicks) {
    std::vector<double> every_other;
    for (std::size_t i = 0; i < ticks.size(); i += 2) every_other.push_back(ticks[i]);
    ticks = std::move(every_other);
  }
  return ticks;
}

// `range` is in the scale's own units (logarithms on a logarithmic axis).
std::vector<double> Ticks(const ChartAxis& axis, const Range& range) {
  std::vector<double> ticks;
  switch (axis.scale) {
    case Scale::kCategory:
      for (std::size_t i = 0; i < axis.categories.size(); ++i) {
        ticks.push_back(static_cast<double>(i));
      }
      return ticks;
    case Scale::kLinear:
      if (axis.format == Format::kPercent && range.low == 0 && range.high == 1) {
        return {0, 0.25, 0.5, 0.75, 1};
      }
      return LinearTicks(range);
    case Scale::kLog2:
      for (double e = std::ceil(range.low - 1e-9); e <= range.high + 1e-9; ++e) {
        ticks.push_back(std::exp2(e));
      }
      return Thinned(ticks);
    case Scale::kLog10: {
      const bool is_short = range.high - range.low < 2.5;
      for (double e = std::floor(range.low); e <= range.high; ++e) {
        for (const double m : {1.0, 2.0, 5.0}) {
          const double v = m * std::pow(10, e);
          if (m > 1 && !is_short) continue;
          if (std::log10(v) >= range.low - 1e-9 && std::log10(v) <= range.high + 1e-9) {
            ticks.push_back(v);
          }
        }
      }
      return ticks;
    }
  }
  return ticks;
}

class Canvas {
 public:
  explicit Canvas(const Chart& chart) : chart_(chart) {
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& p : series.points) {
        if (!Drawable(chart.x, p.x)) continue;
        x_.Include(Forward(chart.x.scale, p.x));
        for (const auto& y : {p.y, p.low, p.high}) {
          if (y && Drawable(chart.y, *y)) y_.Include(Forward(chart.y.scale, *y));
        }
      }
    }
    if (x_.empty()) return;
    if (y_.empty()) y_ = {0, 1};
    Extend(chart.x, x_);
    Extend(chart.y, y_);
    if (chart.has_direct_labels && chart.has_lines) {
      std::size_t longest = 0;
      for (const ChartSeries& series : chart.series) {
        if (!series.is_faint) longest = std::max(longest, series.label.size());
      }
      right_ = 22 + std::min(200.0, kLetterWidth * static_cast<double>(longest));
    }
  }

  bool empty() const { return x_.empty(); }

  std::string Render() {
    out_ = fmt::format(
        "<svg class=\"chart\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
        "aria-label=\"{2}\">\n<text class=\"title\" x=\"{3:.1f}\" y=\"16\">{2}</text>\n",
        chart_.width, chart_.height, EscapeHtml(chart_.title), 2.0);
    DrawShade();
    DrawAxes();
    DrawReferences();
    for (const ChartSeries& series : chart_.series) DrawBand(series);
    for (const ChartSeries& series : chart_.series) DrawLine(series);
    for (const ChartSeries& series : chart_.series) DrawPoints(series);
    DrawLabels();
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  static constexpr double kLeft = 56;
  static constexpr double kTop = 34;
  static constexpr double kBottom = 46;

  void Extend(const ChartAxis& axis, Range& range) const {
    if (axis.scale == Scale::kCategory) {
      range = {-0.4, static_cast<double>(axis.categories.size()) - 0.6};
      return;
    }
    if (range.high - range.low < 1e-9) {
      range = {range.low - 0.5, range.high + 0.5};
    } else if (axis.scale == Scale::kLinear) {
      range.high += 0.04 * (range.high - range.low);
    } else {
      const double margin = 0.05 * (range.high - range.low);
      range = {range.low - margin, range.high + margin};
    }
    if (axis.low) range.low = Forward(axis.scale, *axis.low);
    if (axis.high) range.high = Forward(axis.scale, *axis.high);
  }

  double left() const { return kLeft; }
  double right() const { return chart_.width - right_; }
  double top() const { return kTop; }
  double bottom() const { return chart_.height - kBottom; }
  double X(double v) const {
    return left() + (Forward(chart_.x.scale, v) - x_.low) / (x_.high - x_.low) * (right() - left());
  }
  double Y(double v) const {
    const double share = (Forward(chart_.y.scale, v) - y_.low) / (y_.high - y_.low);
    return bottom() - std::clamp(share, 0.0, 1.0) * (bottom() - top());
  }

  void DrawShade() {
    if (!chart_.shade_from_x) return;
    const double x = std::clamp(X(*chart_.shade_from_x), left(), right());
    out_ += fmt::format(
        "<rect class=\"shade\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n"
        "<text class=\"note\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        x, top(), right() - x, bottom() - top(), right() - 4, top() - 5,
        EscapeHtml(chart_.shade_label));
  }

  void DrawAxes() {
    for (const double tick : Ticks(chart_.y, y_)) {
      const double y = Y(tick);
      out_ += fmt::format(
          "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
          "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
          left(), right(), y, y, left() - 7, y + 4, EscapeHtml(TickLabel(chart_.y, tick)));
    }
    for (const double tick : Ticks(chart_.x, x_)) {
      const bool is_category = chart_.x.scale == Scale::kCategory;
      const std::string label = is_category ? chart_.x.categories[static_cast<std::size_t>(tick)]
                                            : TickLabel(chart_.x, tick);
      const double x = X(tick);
      out_ += fmt::format(
          "<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
          "<text class=\"tick\" x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
          x, bottom(), bottom() + 4, bottom() + 17, EscapeHtml(label));
    }
    out_ += fmt::format(
        "<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>\n"
        "<text class=\"label\" x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"middle\">{5}</text>\n"
        "<text class=\"label\" transform=\"translate(13 {6:.1f}) rotate(-90)\" "
        "text-anchor=\"middle\">{7}</text>\n",
        left(), right(), bottom(), (left() + right()) / 2, chart_.height - 9.0,
        EscapeHtml(chart_.x.label), (top() + bottom()) / 2, EscapeHtml(chart_.y.label));
  }

  void DrawReferences() {
    std::vector<double> label_ys;
    for (const ChartReference& reference : chart_.references) {
      if (!Drawable(chart_.y, reference.y)) continue;
      const double y = Y(reference.y);
      double x1 = left();
      double x2 = right();
      if (reference.x) {
        if (!Drawable(chart_.x, *reference.x)) continue;
        x1 = std::max(left(), X(*reference.x) - kDash / 2);
        x2 = std::min(right(), X(*reference.x) + kDash / 2);
      }
      out_ += fmt::format(
          "<line class=\"reference\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
          x1, x2, y, y);
      if (reference.label.empty()) continue;
      double label_y = y > (top() + bottom()) / 2 ? y - 5 : y + 13;
      for (const double other : label_ys) {
        if (std::abs(label_y - other) < kLabelGap) label_y = other - kLabelGap;
      }
      label_ys.push_back(label_y);
      const bool is_right = chart_.has_reference_labels_right;
      out_ += fmt::format(
          "<text class=\"note\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
          is_right ? right() - 4 : left() + 5, label_y, is_right ? "end" : "start",
          EscapeHtml(reference.label));
    }
  }

  static std::string Classes(const char* kind, int style) {
    const int dash = style / kNumColours % 3;
    return fmt::format("{} s{}{}", kind, style % kNumColours,
                       dash == 0 ? "" : fmt::format(" d{}", dash));
  }

  void DrawBand(const ChartSeries& series) {
    if (!chart_.has_lines) return;
    std::string upper;
    std::string lower;
    int num_points = 0;
    for (const ChartPoint& p : series.points) {
      if (!p.low || !p.high || !Drawable(chart_.x, p.x)) continue;
      upper += fmt::format("{:.1f},{:.1f} ", X(p.x), Y(*p.high));
      lower = fmt::format("{:.1f},{:.1f} ", X(p.x), Y(*p.low)) + lower;
      ++num_points;
    }
    if (num_points < 2) return;
    out_ += fmt::format("<polygon class=\"{}\" points=\"{}{}\"/>\n", Classes("band", series.style),
                        upper, lower);
  }

  void DrawLine(const ChartSeries& series) {
    if (!chart_.has_lines) return;
    std::string path;
    bool is_open = false;  // a failed point breaks the line
    for (const ChartPoint& p : series.points) {
      const bool drawable = p.y && Drawable(chart_.x, p.x) && Drawable(chart_.y, *p.y);
      if (drawable) path += fmt::format("{}{:.1f} {:.1f}", is_open ? "L" : "M", X(p.x), Y(*p.y));
      is_open = drawable;
    }
    if (path.empty()) return;
    out_ += fmt::format("<path class=\"{}\" d=\"{}\"/>\n",
                        Classes(series.is_faint ? "faint" : "line", series.style), path);
  }

  void DrawPoints(const ChartSeries& series) {
    for (const ChartPoint& p : series.points) {
      if (!Drawable(chart_.x, p.x)) continue;
      const double x = X(p.x);
      const bool on_axis = !p.y || !Drawable(chart_.y, *p.y);
      const double y = on_axis ? bottom() : Y(*p.y);
      const bool has_marker = !series.is_faint && series.points.size() <= kMaxMarkers;
      if (!has_marker && !p.failed) continue;
      std::string mark;
      if (!chart_.has_lines && p.low && p.high) {
        mark += fmt::format(
            "<line class=\"{}\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
            Classes("whisker", series.style), x, x, Y(*p.low), Y(*p.high));
      }
      if (!on_axis && has_marker) mark += Marker(series.style, x, y);
      if (on_axis || p.failed) mark += Cross(series.style, x, y - (on_axis ? 7 : 0));
      out_ += "<g>" + mark + (p.note.empty() ? "" : "<title>" + EscapeHtml(p.note) + "</title>") +
              "</g>\n";
    }
  }

  static std::string Cross(int style, double x, double y) {
    return fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}l9 9m0 -9l-9 9\"/>",
                       fmt::format("cross s{}", style % kNumColours), x - 4.5, y - 4.5);
  }

 public:
  static std::string Marker(int style, double x, double y) {
    const std::string classes = fmt::format("dot s{}", style % kNumColours);
    switch (style % kNumColours) {
      case 0:
        return fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.4\"/>", classes,
                           x, y);
      case 1:
        return fmt::format(
            "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"6.4\" height=\"6.4\"/>", classes,
            x - 3.2, y - 3.2);
      case 2:
        return Polygon(classes, x, y, "0,-4.4 4.2,3.2 -4.2,3.2");
      case 3:
        return Polygon(classes, x, y, "0,-4.6 4.6,0 0,4.6 -4.6,0");
      case 4:
        return Polygon(classes, x, y, "0,4.4 4.2,-3.2 -4.2,-3.2");
      case 5:
        return Polygon(classes, x, y,
                       "-1.4,-4 1.4,-4 1.4,-1.4 4,-1.4 4,1.4 1.4,1.4 1.4,4 "
                       "-1.4,4 -1.4,1.4 -4,1.4 -4,-1.4 -1.4,-1.4");
      default:
        return Polygon(classes, x, y, "-2,-4 2,-4 4,0 2,4 -2,4 -4,0");
    }
  }

 private:
  static std::string Polygon(const std::string& classes, double x, double y, const char* points) {
    return fmt::format(
        "<polygon class=\"{}\" transform=\"translate({:.1f} {:.1f})\" points=\"{}\"/>", classes, x,
        y, points);
  }

  struct Label {
    const ChartSeries* series;
    double x;
    double y;         // of the point that it names
    double baseline;  // of the text, after moving apart
  };

  void DrawLabels() {
    if (!chart_.has_direct_labels) return;
    std::vector<Label> labels;
    for (const ChartSeries& series : chart_.series) {
      if (series.is_faint) continue;
      for (auto p = series.points.rbegin(); p != series.points.rend(); ++p) {
        if (!p->y || !Drawable(chart_.x, p->x) || !Drawable(chart_.y, *p->y)) continue;
        labels.push_back({&series, X(p->x), Y(*p->y), Y(*p->y)});
        break;
      }
    }
    MoveApart(labels);
    for (const Label& label : labels) {
      if (chart_.has_lines) {
        DrawEndLabel(label);
      } else {
        DrawPointLabel(label, labels);
      }
    }
  }

  // Labels keep their order from top to bottom and at least kLabelGap, inside the plot.
  void MoveApart(std::vector<Label>& labels) const {
    if (!chart_.has_lines) return;
    std::stable_sort(labels.begin(), labels.end(),
                     [](const Label& a, const Label& b) { return a.y < b.y; });
    double floor = top() + 4;
    for (Label& label : labels) {
      label.baseline = std::max(label.baseline, floor);
      floor = label.baseline + kLabelGap;
    }
    double ceiling = bottom();
    for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
      label->baseline = std::min(label->baseline, ceiling);
      ceiling = label->baseline - kLabelGap;
    }
  }

  void DrawEndLabel(const Label& label) {
    out_ += fmt::format(
        "<path class=\"leader\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>"
        "<text class=\"name s{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        label.x + 6, label.y, right() + 7, label.baseline, label.series->style % kNumColours,
        right() + 10, label.baseline + 4, EscapeHtml(label.series->label));
  }

  // To the right of the point, or to the left where it would leave the plot; above a neighbour.
  void DrawPointLabel(const Label& label, const std::vector<Label>& labels) {
    const double width = kLetterWidth * static_cast<double>(label.series->label.size());
    const bool is_left = label.x + 10 + width > right();
    double y = label.y + 4;
    for (const Label& other : labels) {
      const bool is_near =
          std::abs(other.x - label.x) < width + 16 && std::abs(other.y - label.y) < kLabelGap;
      if (&other != &label && is_near &&
          (other.y > label.y || (other.y == label.y && &other > &label))) {
        y = std::min(y, other.y + 4 - kLabelGap);
      }
    }
    out_ += fmt::format("<text class=\"name s{}\" x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n",
                        label.series->style % kNumColours, label.x + (is_left ? -8 : 8), y,
                        is_left ? " text-anchor=\"end\"" : "", EscapeHtml(label.series->label));
  }

  const Chart& chart_;
  Range x_;
  Range y_;
  double right_ = 16;
  std::string out_;
};

}  // namespace

std::string RenderChart(const Chart& chart) {
  Canvas canvas(chart);
  return canvas.empty() ? "" : canvas.Render();
}

std::string RenderSwatch(int style) {
  const int dash = style / kNumColours % 3;
  return fmt::format(
      "<svg class=\"swatch\" viewBox=\"0 0 30 12\" width=\"30\" height=\"12\" aria-hidden=\"true\">"
      "<path class=\"line s{}{}\" d=\"M1 6L29 6\"/>{}</svg>",
      style % kNumColours, dash == 0 ? "" : fmt::format(" d{}", dash),
      Canvas::Marker(style, 15, 6));
}

}  // namespace mixerbench::reports
