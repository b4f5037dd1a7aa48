// Names beside points: none covers another, and the first are served first.
// SPDX-License-Identifier: Apache-2.0
#include "reports/render/label_places.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

constexpr Box kRoom{0, 0, 372, 250};

// Points of a cloud that is the denser the more there are.
std::vector<NamedPoint> Cloud(int count) {
  std::vector<NamedPoint> points;
  for (int i = 0; i < count; ++i) {
    points.push_back({.x = 40 + 300 * std::fmod(0.618 * i, 1),
                      .y = 30 + 190 * std::fmod(0.414 * i, 1),
                      .width = 30 + 12.0 * (i % 6)});
  }
  return points;
}

std::vector<Box> MarksOf(const std::vector<NamedPoint>& points) {
  std::vector<Box> marks;
  for (const NamedPoint& point : points) {
    marks.push_back({point.x - 5, point.y - 5, point.x + 5, point.y + 5});
  }
  return marks;
}

auto NumPlaced(const std::vector<std::optional<NamePlace>>& places) {
  return std::count_if(places.begin(), places.end(),
                       [](const auto& place) { return place.has_value(); });
}

TEST_CASE("label places: names cover neither each other nor marks, and stay in the plot") {
  for (const int count : {1, 8, 24, 80}) {
    CAPTURE(count);
    const auto points = Cloud(count);
    std::vector<Box> boxes = MarksOf(points);
    const auto places = PlaceNames(points, kRoom, boxes);
    REQUIRE(places.size() == points.size());
    for (const auto& place : places) {
      if (!place) continue;
      CHECK(place->box.x0 >= kRoom.x0);
      CHECK(place->box.x1 <= kRoom.x1);
      CHECK(place->box.y0 >= kRoom.y0);
      CHECK(place->box.y1 <= kRoom.y1);
      for (const Box& other : boxes) CHECK(Overlap(place->box, other) == 0);
      boxes.push_back(place->box);
    }
    if (count <= 8) CHECK(NumPlaced(places) == count);
    if (count == 80) CHECK(NumPlaced(places) < count);
  }
}

TEST_CASE("label places: what comes first has a name if any has") {
  std::vector<NamedPoint> heap(40, {.x = 180, .y = 120, .width = 60});
  const auto places = PlaceNames(heap, kRoom, MarksOf(heap));
  CHECK(places.front());
  CHECK_FALSE(places.back());
  const auto num_placed = static_cast<std::size_t>(NumPlaced(places));
  CHECK(num_placed == 8);  // beside, above, below, and a line further on both sides
  for (std::size_t i = 0; i < heap.size(); ++i) CHECK(places[i].has_value() == (i < num_placed));
}

TEST_CASE("label places: a name ends where the plot does") {
  const NamedPoint corner{.x = 366, .y = 10, .width = 60};
  const auto places = PlaceNames({corner}, kRoom, MarksOf({corner}));
  REQUIRE(places[0]);
  CHECK(places[0]->anchor == "end");
  CHECK_FALSE(PlaceNames({{.x = 180, .y = 120, .width = 400}}, kRoom, {})[0]);
}

}  // namespace
}  // namespace mixerbench::reports
