// SPDX-License-Identifier: Apache-2.0
#include "harness/run/result_difference.h"

#include <string>
#include <vector>

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

std::vector<std::string> Keys(const std::vector<Difference>& differences) {
  std::vector<std::string> keys;
  for (const Difference& difference : differences) keys.push_back(difference.key);
  return keys;
}

reports::CellResult Result() {
  reports::CellResult cell;
  cell.state = reports::CellState::kCompleted;
  cell.config = Object{};
  cell.learning_curve = {{.step = 8, .train_loss = 2.5, .validation_accuracy = 0.5, .lr = 0.1}};
  cell.accuracy.emplace_back().accuracy = 0.75;
  cell.environment = Object{{"tool", Object{{"compiler", "12.2"}, {"git_commit", "a"}}},
                            {"cpu", Object{{"model", "one"}}}};
  return cell;
}

TEST_CASE("difference: the leaves that differ, by JSON pointer") {
  const Value stored = Object{{"a", 1}, {"b", Array{1, 2.0}}, {"c/d", Object{{"e", "x"}}}};
  CHECK(FindDifferences(stored, stored).empty());
  const Value again = Object{{"a", 2}, {"b", Array{1, 2.0, 3}}, {"c/d", Object{{"f", "x"}}}};
  const auto found = FindDifferences(stored, again);
  CHECK(Keys(found) == std::vector<std::string>{"/a", "/b/2", "/c~1d/e", "/c~1d/f"});
  CHECK(found[0].stored == Value(1));
  CHECK(found[0].again == Value(2));
  CHECK(found[1].stored.is_null());
  CHECK(found[3].again == Value("x"));
}

TEST_CASE("difference: numbers by their bits") {
  CHECK(FindDifferences(0.1, 0.1).empty());
  CHECK(FindDifferences(0.1, 0.10000000000000002).size() == 1);
  CHECK(FindDifferences(0.0, -0.0).size() == 1);
}

TEST_CASE("difference: what a cell answered, not when and how fast") {
  reports::CellResult again = Result();
  again.wall_s = 7;
  again.started = "2026-01-01T00:00:00Z";
  again.planned_steps = 300;  // a result before schema 1.11 does not tell
  again.learning_curve[0].elapsed_s = 3;
  again.environment = Object{};
  CHECK(FindResultDifferences(Result(), again).empty());
  again.accuracy[0].accuracy = 0.5;
  again.learning_curve[0].train_loss = 2.25;
  again.state = reports::CellState::kDiverged;
  CHECK(Keys(FindResultDifferences(Result(), again)) ==
        std::vector<std::string>{"/accuracy_by_length/0/accuracy", "/learning_curve/0/train_loss",
                                 "/state/value"});
}

TEST_CASE("difference: the environment without the commit") {
  reports::CellResult again = Result();
  again.environment = Object{{"tool", Object{{"compiler", "12.2"}, {"git_commit", "b"}}},
                             {"cpu", Object{{"model", "two"}}}};
  CHECK(Keys(FindEnvironmentDifferences(Result(), again)) ==
        std::vector<std::string>{"/cpu/model"});
}

}  // namespace
}  // namespace mixerbench::harness
