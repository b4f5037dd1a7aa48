// SPDX-License-Identifier: Apache-2.0
#include "reports/render/label_places.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mixerbench::reports {
namespace {

constexpr double kAscent = 9;  // of a name, above its baseline
constexpr double kDescent = 2;
constexpr double kGuess = 3;  // the reader's font may be wider by so much on each side

struct Offset {
  double dx, dy;  // from the point to the anchor on the baseline
  std::string_view anchor;
};

// Beside the point first, then above and below, at the corners, a line further away.
constexpr std::array<Offset, 12> kOffsets = {{{8, 4, "start"},
                                              {-8, 4, "end"},
                                              {0, -9, "middle"},
                                              {0, 17, "middle"},
                                              {7, -7, "start"},
                                              {7, 15, "start"},
                                              {-7, -7, "end"},
                                              {-7, 15, "end"},
                                              {8, 28, "start"},
                                              {-8, 28, "end"},
                                              {8, -20, "start"},
                                              {-8, -20, "end"}}};

// Widths are guesses, so a name left of its point ends there whatever the font.
NamePlace PlaceAt(const NamedPoint& point, const Offset& offset) {
  const double x = point.x + offset.dx;
  const double y = point.y + offset.dy;
  const double share = offset.anchor == "end" ? 1 : offset.anchor == "middle" ? 0.5 : 0;
  const double x0 = x - share * point.width;
  return {x, y, offset.anchor, {x0 - kGuess, y - kAscent, x0 + point.width + kGuess, y + kDescent}};
}

bool IsInside(const Box& box, const Box& room) {
  return box.x0 >= room.x0 && box.x1 <= room.x1 && box.y0 >= room.y0 && box.y1 <= room.y1;
}

}  // namespace

double Overlap(const Box& a, const Box& b) {
  return std::max(0.0, std::min(a.x1, b.x1) - std::max(a.x0, b.x0)) *
         std::max(0.0, std::min(a.y1, b.y1) - std::max(a.y0, b.y0));
}

std::vector<std::optional<NamePlace>> PlaceNames(const std::vector<NamedPoint>& points,
                                                 const Box& room, std::vector<Box> taken) {
  std::vector<std::optional<NamePlace>> places(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (const Offset& offset : kOffsets) {
      const NamePlace place = PlaceAt(points[i], offset);
      const bool is_free = IsInside(place.box, room) &&
                           std::none_of(taken.begin(), taken.end(), [&](const Box& box) {
                             return Overlap(box, place.box) > 0;
                           });
      if (!is_free) continue;
      taken.push_back(place.box);
      places[i] = place;
      break;
    }
  }
  return places;
}

}  // namespace mixerbench::reports
