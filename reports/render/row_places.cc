// SPDX-License-Identifier: Apache-2.0
#include "reports/render/row_places.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace mixerbench::reports {
namespace {

constexpr double kSame = 1;          // closer along x is one x
constexpr std::size_t kStacked = 3;  // marks at one x that can be told apart in a row
constexpr double kMark = 9;          // a mark with some room
constexpr double kNumbered = 26;     // and with a number right of it
constexpr std::array<double, 5> kOffsets = {0, -8, 8, -4, 4};

// The first offset at which no place is met, else the first that no place of the same x has.
double FreeOffset(const std::vector<RowPlace>& places, double x) {
  const auto is_free = [&](double dy, bool is_same_x_alone) {
    return std::none_of(places.begin(), places.end(), [&](const RowPlace& place) {
      const double reach = is_same_x_alone ? kSame : place.marks.size() > 1 ? kNumbered : kMark;
      return place.dy == dy && std::abs(x - place.x) < reach;
    });
  };
  for (const bool is_same_x_alone : {false, true}) {
    for (const double dy : kOffsets) {
      if (is_free(dy, is_same_x_alone)) return dy;
    }
  }
  return 0;
}

}  // namespace

std::vector<RowPlace> PlacesInRow(const std::vector<RowMark>& marks) {
  std::vector<std::size_t> order(marks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return marks[a].x < marks[b].x; });
  std::vector<RowPlace> places;
  for (auto first = order.begin(); first != order.end();) {
    const double x = marks[*first].x;
    const auto last =
        std::find_if(first, order.end(), [&](std::size_t i) { return marks[i].x - x >= kSame; });
    const bool is_numbered = static_cast<std::size_t>(last - first) > kStacked;
    const auto ringed = std::stable_partition(
        first, last, [&](std::size_t i) { return !is_numbered || !marks[i].is_ringed; });
    for (const auto& [begin, end] : {std::pair(first, ringed), std::pair(ringed, last)}) {
      for (auto mark = begin; mark != end;) {
        const auto next = is_numbered ? end : mark + 1;
        places.push_back({.marks = {mark, next}, .x = x, .dy = FreeOffset(places, x)});
        mark = next;
      }
    }
    first = last;
  }
  return places;
}

std::vector<RowPlace> PlacesInZone(std::size_t num_marks, double left) {
  constexpr std::size_t kInLine = 3;
  constexpr double kGap = 14;
  constexpr double kHalfLine = 4.5;
  std::vector<RowPlace> places;
  if (num_marks > 2 * kInLine) {
    places.push_back({.marks = std::vector<std::size_t>(num_marks), .x = left});
    std::iota(places[0].marks.begin(), places[0].marks.end(), 0);
    return places;
  }
  for (std::size_t i = 0; i < num_marks; ++i) {
    const double line = i < kInLine ? -kHalfLine : kHalfLine;
    places.push_back({.marks = {i},
                      .x = left + kGap * static_cast<double>(i % kInLine),
                      .dy = num_marks > kInLine ? line : 0});
  }
  return places;
}

}  // namespace mixerbench::reports
