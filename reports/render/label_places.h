// Where names stand beside the points of a chart: on no other name, on no mark, inside the plot.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace mixerbench::reports {

// In units of the drawing; y grows downwards.
struct Box {
  double x0, y0, x1, y1;
};

// The area that two boxes share.
double Overlap(const Box& a, const Box& b);

struct NamedPoint {
  double x, y;
  double width;  // of the name, as far as it can be told without the reader's font
};

struct NamePlace {
  double x, y;              // of the baseline
  std::string_view anchor;  // SVG's text-anchor: which part of the name stands at x
  Box box;                  // what it covers, with some room for wider fonts
};

// A place for each name, the most important point first: the first of twelve around its point that
// is in `room` and meets neither `taken` nor an earlier name; nothing where none is left.
std::vector<std::optional<NamePlace>> PlaceNames(const std::vector<NamedPoint>& points,
                                                 const Box& room, std::vector<Box> taken);

}  // namespace mixerbench::reports
