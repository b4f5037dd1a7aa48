// Marks of a row: every run is to be seen, or counted.
// SPDX-License-Identifier: Apache-2.0
#include "reports/render/row_places.h"

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

std::size_t NumMarks(const std::vector<RowPlace>& places) {
  std::set<std::size_t> marks;
  for (const RowPlace& place : places) marks.insert(place.marks.begin(), place.marks.end());
  return marks.size();
}

// Places that cannot be told apart are one.
std::size_t NumSeen(const std::vector<RowPlace>& places) {
  std::set<std::pair<double, double>> seen;
  for (const RowPlace& place : places) seen.emplace(std::round(place.x), place.dy);
  return seen.size();
}

TEST_CASE("row places: a mark that meets none stands in the middle") {
  for (const RowPlace& place : PlacesInRow({{100}, {120}, {140}})) CHECK(place.dy == 0);
}

TEST_CASE("row places: three at one x are stacked, more are one with their number") {
  CHECK(NumSeen(PlacesInRow({{100}, {100}, {100}})) == 3);
  const auto many = PlacesInRow(std::vector<RowMark>(16, {100}));
  REQUIRE(many.size() == 1);
  CHECK(many[0].marks.size() == 16);
}

TEST_CASE("row places: ringed marks are counted by themselves") {
  std::vector<RowMark> marks(7, {100});
  marks[2].is_ringed = marks[5].is_ringed = true;
  const auto places = PlacesInRow(marks);
  REQUIRE(places.size() == 2);
  CHECK(places[0].marks == std::vector<std::size_t>{0, 1, 3, 4, 6});
  CHECK(places[1].marks == std::vector<std::size_t>{2, 5});
  CHECK(places[0].dy != places[1].dy);
}

TEST_CASE("row places: no mark of a dense row covers another") {
  std::vector<RowMark> marks;
  for (int i = 0; i < 60; ++i) {
    marks.push_back({.x = 100 + std::floor(40 * std::fmod(0.618 * i, 1)), .is_ringed = i % 5 == 0});
  }
  const auto places = PlacesInRow(marks);
  CHECK(NumMarks(places) == marks.size());
  CHECK(NumSeen(places) == places.size());
  for (const RowPlace& place : places) CHECK(std::abs(place.dy) <= 8);
}

TEST_CASE("row places: a zone holds six, and more as one with their number") {
  for (std::size_t num = 1; num <= 6; ++num) {
    const auto places = PlacesInZone(num, 300);
    CHECK(NumMarks(places) == num);
    CHECK(NumSeen(places) == num);
    for (const RowPlace& place : places) {
      CHECK(place.marks.size() == 1);
      CHECK(place.x <= 336);
      CHECK(std::abs(place.dy) <= 5);  // crosses stay on their row, off the axis below
    }
  }
  const auto places = PlacesInZone(16, 300);
  REQUIRE(places.size() == 1);
  CHECK(NumMarks(places) == 16);
}

}  // namespace
}  // namespace mixerbench::reports
