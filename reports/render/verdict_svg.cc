// SPDX-License-Identifier: Apache-2.0
#include "reports/render/verdict_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "io/text.h"

namespace mixerbench::reports {
namespace {

constexpr double kWidth = 190;
constexpr double kHeight = 22;
constexpr double kSide = 6;  // free left and right of the axis

// "12.5", "12": as short as it can be.
std::string N(double x) {
  std::string text = fmt::format("{:.1f}", x);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

double Place(const Axis& axis, double value) {
  const auto scaled = [&](double v) {
    return axis.scale == Axis::Scale::kLog ? std::log(std::max(v, 1e-300)) : v;
  };
  const double low = scaled(axis.low);
  const double share = (scaled(value) - low) / (scaled(axis.high) - low);
  return kSide + std::clamp(share, 0.0, 1.0) * (kWidth - 2 * kSide);
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kSigns = {
    {{"pass", "M4 7.2 6.2 9.4 10 4.8"},
     {"regression", "M4.6 4.6 9.4 9.4M9.4 4.6 4.6 9.4"},
     {"improved", "M7 10V4.2M4.6 6.4 7 4 9.4 6.4"},
     {"inconclusive", "M5.2 5.4a1.9 1.9 0 1 1 2.6 1.9q-.8.4-.8 1M7 10.4v.1"},
     {"missing", "M4.4 7h5.2"},
     {"not_comparable", "M4.4 5.8h5.2M4.4 8.2h5.2M8.4 4.2 5.6 9.8"},
     {"suspicious", "M7 3.8V7.6M7 10v.1"},
     {"not_gated", "M4.4 7h5.2"}}};

}  // namespace

std::string RenderSign(const std::string& verdict, bool is_large) {
  for (const auto& [word, path] : kSigns) {
    if (word != verdict) continue;
    return fmt::format(
        "<svg class=\"sign {}{}\" viewBox=\"0 0 14 14\" aria-hidden=\"true\"><circle cx=\"7\" "
        "cy=\"7\" r=\"7\"/><path d=\"{}\"/></svg>",
        word, is_large ? " large" : "", path);
  }
  return "";
}

std::string RenderInterval(const IntervalPlot& plot, const Axis& axis, const std::string& verdict) {
  const double y = kHeight / 2;
  const auto at = [&](double value) { return Place(axis, value); };
  std::string out = fmt::format(
      "<svg class=\"forest {}\" viewBox=\"0 0 {} {}\" aria-hidden=\"true\"><rect class=\"zone\" "
      "x=\"{}\" y=\"0\" width=\"{}\" height=\"{}\"/><path class=\"zero\" d=\"M{} 0V{}\"/>",
      io::EscapeHtml(verdict), kWidth, kHeight, N(at(plot.zone_low)),
      N(at(plot.zone_high) - at(plot.zone_low)), kHeight, N(at(plot.zero)), kHeight);
  out += fmt::format("<path class=\"span\" d=\"M{} {}H{}\"/>", N(at(plot.low)), N(y),
                     N(at(plot.high)));
  for (const auto& [end, outward] : {std::pair{plot.low, -1.0}, {plot.high, 1.0}}) {
    const double x = at(end);
    const bool is_inside = end >= axis.low && end <= axis.high;
    out += is_inside
               ? fmt::format("<path class=\"cap\" d=\"M{} {}V{}\"/>", N(x), N(y - 4), N(y + 4))
               : fmt::format("<path class=\"cap\" d=\"M{0} {1}L{2} {3}L{0} {4}\"/>",
                             N(x - 4 * outward), N(y - 4), N(x), N(y), N(y + 4));
  }
  return out + fmt::format("<circle class=\"value\" cx=\"{}\" cy=\"{}\" r=\"4\"/></svg>",
                           N(at(plot.value)), N(y));
}

std::string RenderIntervalAxis(const Axis& axis) {
  std::string out =
      fmt::format("<svg class=\"forest axis\" viewBox=\"0 0 {} 18\" aria-hidden=\"true\">", kWidth);
  for (const Tick& tick : axis.ticks) {
    out += fmt::format("<text x=\"{}\" y=\"12\" text-anchor=\"middle\">{}</text>",
                       N(Place(axis, tick.at)), io::EscapeHtml(tick.text));
  }
  return out + "</svg>";
}

}  // namespace mixerbench::reports
