// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "reports/view/figures.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {

std::vector<Tick> LogTicks(double low, double high) {
  std::vector<Tick> ticks;
  for (double decade = std::pow(10.0, std::floor(std::log10(low))); decade <= high; decade *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      const double at = decade * step;
      if (at < low * 0.999 || at > high * 1.001) continue;
      const double unit = at >= 1e9 ? 1e9 : at >= 1e6 ? 1e6 : 1;
      ticks.push_back({at, Significant(at / unit, 1) + (unit == 1e9   ? " G"
                                                        : unit == 1e6 ? " M"
                                                                      : "")});
    }
  }
  if (ticks.size() <= 6) return ticks;
  std::vector<Tick> decades;
  for (const Tick& tick : ticks) {
    const double digits = std::log10(tick.at);
    if (std::abs(digits - std::round(digits)) < 1e-9) decades.push_back(tick);
  }
  return decades.size() >= 2 ? decades : ticks;
}

std::vector<Tick> ByteTicks(double low, double high) {
  std::vector<Tick> ticks;
  double every = std::max(1.0, std::ceil(std::log2(high / low) / 4.5));
  for (double power = std::ceil(std::log2(low) - 1e-9); std::exp2(power) <= high * 1.001;
       power += every) {
    ticks.push_back({std::exp2(power), Bytes(std::exp2(power))});
  }
  return ticks;
}

Axis AccuracyAxis(bool is_odds, double lowest) {
  Axis axis{.label = "accuracy, %", .scale = Axis::Scale::kLinear, .low = 0, .high = 1};
  if (!is_odds) {
    for (const double at : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      axis.ticks.push_back({at, fmt::format("{:g}", 100 * at)});
    }
    return axis;
  }
  axis.label = "accuracy, % (log-odds axis)";
  axis.scale = Axis::Scale::kOdds;
  axis.low = lowest < 0.05 ? 0.01 : lowest < 0.25 ? 0.03 : lowest < 0.5 ? 0.2 : 0.45;
  for (const double at : {0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999}) {
    if (at >= axis.low) axis.ticks.push_back({at, fmt::format("{:g}", 100 * at)});
  }
  axis.ticks.push_back({1, "100"});
  return axis;
}

Axis NameAxis(const std::vector<std::string>& names, const std::string& label) {
  Axis axis{.label = label,
            .scale = Axis::Scale::kLinear,
            .low = -0.35,
            .high = static_cast<double>(names.size()) - 0.65};
  for (std::size_t i = 0; i < names.size(); ++i) {
    axis.ticks.push_back({static_cast<double>(i), names[i]});
  }
  return axis;
}

}  // namespace mixerbench::reports
