// SPDX-License-Identifier: Apache-2.0
#include "harness/run/eta.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <queue>

namespace mixerbench::harness {
namespace {

// Too little to tell a rate from.
constexpr double kLeastShare = 0.02;

// What a running cell takes in all if it goes on like this to its last step.
std::optional<double> WholeBySteps(const Eta::Running& cell) {
  if (cell.share_seen < kLeastShare) return std::nullopt;
  return cell.seen_s / cell.share_seen;
}

}  // namespace

Eta::Eta(std::size_t num_workers, std::int64_t cells_per_worker)
    : num_workers_(std::max<std::size_t>(1, num_workers)),
      cells_per_worker_(static_cast<std::size_t>(std::max<std::int64_t>(1, cells_per_worker))) {}

void Eta::Add(const CellType& type, double seconds) {
  for (Mean* mean : {&groups_[{type.kind, type.group}], &kinds_[type.kind]}) {
    mean->sum += seconds;
    ++mean->count;
  }
}

std::optional<double> Eta::ExpectedOfGroup(const CellType& type) const {
  const auto found = groups_.find({type.kind, type.group});
  if (found == groups_.end()) return std::nullopt;
  return found->second.value();
}

std::optional<double> Eta::Expected(const CellType& type) const {
  if (const auto expected = ExpectedOfGroup(type)) return expected;
  const auto found = kinds_.find(type.kind);
  if (found == kinds_.end()) return std::nullopt;
  return found->second.value();
}

std::optional<double> Eta::Rest(const Running& cell) const {
  const double share_before = cell.share_done - cell.share_seen;
  const auto by_mean = [&](std::optional<double> mean) -> std::optional<double> {
    if (!mean) return std::nullopt;
    const double rest = *mean * (1 - share_before) - cell.elapsed_s;
    return rest > 0 ? std::optional(rest) : std::nullopt;
  };
  if (const auto rest = by_mean(ExpectedOfGroup(cell.type))) return rest;
  if (const auto whole = WholeBySteps(cell); whole && cell.share_done < 1) {
    return *whole * (1 - cell.share_done);
  }
  return by_mean(Expected(cell.type));
}

Eta::Left Eta::DeviceTime(const std::vector<Waiting>& waiting) const {
  // Few cells do not fill all slots of a device.
  const std::size_t per_device = (waiting.size() + num_workers_ - 1) / num_workers_;
  const auto at_once =
      static_cast<double>(std::max<std::size_t>(1, std::min(cells_per_worker_, per_device)));
  Left time;
  for (const Waiting& cell : waiting) {
    const auto expected = Expected(cell.type);
    if (!expected) time.at_least = true;
    time.seconds += expected.value_or(0) / (cell.alone ? 1 : at_once);
  }
  return time;
}

Eta::Left Eta::Estimate(const std::vector<Running>& running,
                        const std::vector<Waiting>& waiting) const {
  Left left;
  Eta known = *this;                                       // running cells tell of those that wait
  std::vector<std::vector<double>> free_at(num_workers_);  // of the slots that are taken
  for (const Running& cell : running) {
    const auto rest = Rest(cell);
    if (!rest) left.at_least = true;
    free_at[cell.worker % num_workers_].push_back(rest.value_or(0));
    const auto whole = WholeBySteps(cell);
    if (whole && !ExpectedOfGroup(cell.type)) known.Add(cell.type, *whole);
  }
  std::priority_queue<double, std::vector<double>, std::greater<>> slots;
  for (auto& times : free_at) {
    times.resize(std::max(times.size(), cells_per_worker_), 0.0);
    for (const double time : times) slots.push(time);
    left.seconds = std::max(left.seconds, *std::max_element(times.begin(), times.end()));
  }
  double alone_s = 0;
  for (const Waiting& cell : waiting) {
    const auto expected = known.Expected(cell.type);
    if (!expected) {
      left.at_least = true;
    } else if (cell.alone && cells_per_worker_ > 1) {
      alone_s += *expected;
    } else {
      const double end = slots.top() + *expected;
      slots.pop();
      slots.push(end);
      left.seconds = std::max(left.seconds, end);
    }
  }
  left.seconds += alone_s / static_cast<double>(num_workers_);
  return left;
}

std::string FormatLeft(const Eta::Left& left) {
  if (!left.at_least) return FormatDuration(left.seconds);
  return left.seconds < 1 ? "?" : "> " + FormatDuration(left.seconds);
}

std::string FormatDuration(double seconds) {
  const auto total = static_cast<long>(std::lround(seconds));
  char text[32];
  if (total >= 3600) {
    std::snprintf(text, sizeof text, "%ldh%02ldm", total / 3600, total % 3600 / 60);
  } else if (total >= 60) {
    std::snprintf(text, sizeof text, "%ldm%02lds", total / 60, total % 60);
  } else {
    std::snprintf(text, sizeof text, "%lds", total);
  }
  return text;
}

}  // namespace mixerbench::harness
