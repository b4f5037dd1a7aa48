// Where the marks of a row stand: those that meet are stacked, and of many at one place one is
// drawn with their number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace mixerbench::reports {

struct RowMark {
  double x = 0;
  bool is_ringed = false;  // no mark stands for a ringed one and one that is not
};

struct RowPlace {
  std::vector<std::size_t> marks;  // those that it is of, by index
  double x = 0;
  double dy = 0;  // from the middle of the row, downwards; at most 8
};

// Of marks on the axis of a row, in units of the drawing: up to three at one x are stacked, more
// are one place. No two places are the same.
std::vector<RowPlace> PlacesInRow(const std::vector<RowMark>& marks);

// Of marks in a zone beside the plot, where x says nothing, from `left` on: up to six stand apart,
// in 36 units, more are one place.
std::vector<RowPlace> PlacesInZone(std::size_t num_marks, double left);

}  // namespace mixerbench::reports
