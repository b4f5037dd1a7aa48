// SPDX-License-Identifier: Apache-2.0
#include "harness/run/result_difference.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "io/json.h"
#include "reports/result/plan_json.h"
#include "reports/result/result_json.h"

namespace mixerbench::harness {
namespace {

bool SameLeaf(const Value& a, const Value& b) {
  if (a.is_double() && b.is_double()) {
    return std::bit_cast<std::uint64_t>(a.as_double()) ==
           std::bit_cast<std::uint64_t>(b.as_double());
  }
  return a == b;
}

void Compare(const Value& stored, const Value& again, const std::string& key,
             std::vector<Difference>& differences) {
  if (stored.is_object() && again.is_object()) {
    Object members = stored.as_object();
    members.insert(again.as_object().begin(), again.as_object().end());
    for (const auto& [name, unused] : members) {
      const Value* left = stored.Find(name);
      const Value* right = again.Find(name);
      Compare(left ? *left : Value(), right ? *right : Value(), key + "/" + io::PointerToken(name),
              differences);
    }
  } else if (stored.is_array() && again.is_array()) {
    const Array& left = stored.as_array();
    const Array& right = again.as_array();
    for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
      Compare(i < left.size() ? left[i] : Value(), i < right.size() ? right[i] : Value(),
              key + "/" + std::to_string(i), differences);
    }
  } else if (!SameLeaf(stored, again)) {
    differences.push_back({key, stored, again});
  }
}

// The part that depends neither on time nor on how it was run.
Value Answer(const reports::CellResult& cell) {
  Value document = reports::CellToValue(cell);
  Object& members = document.as_object();
  Object answer;
  for (const char* key : {"state", "model_facts", "learning_curve", "steps_to_threshold", "solved",
                          "accuracy_by_length", "taps", "plans"}) {
    answer[key] = std::move(members.at(key));
  }
  for (const char* asked : {"halved_from", "planned_steps"}) {  // not what came out
    answer.at("state").as_object().erase(asked);
  }
  for (Value& point : answer.at("learning_curve").as_array()) point.as_object().erase("elapsed_s");
  reports::DropExecution(answer.at("plans"));
  return answer;
}

Value Surroundings(const reports::CellResult& cell) {
  Value environment = cell.environment;
  if (!environment.is_object()) return environment;
  const auto tool = environment.as_object().find("tool");
  if (tool == environment.as_object().end() || !tool->second.is_object()) return environment;
  for (const char* key : {"git_commit", "git_dirty"}) tool->second.as_object().erase(key);
  return environment;
}

}  // namespace

std::vector<Difference> FindDifferences(const Value& stored, const Value& again) {
  std::vector<Difference> differences;
  Compare(stored, again, "", differences);
  return differences;
}

std::vector<Difference> FindResultDifferences(const reports::CellResult& stored,
                                              const reports::CellResult& again) {
  return FindDifferences(Answer(stored), Answer(again));
}

std::vector<Difference> FindEnvironmentDifferences(const reports::CellResult& stored,
                                                   const reports::CellResult& again) {
  return FindDifferences(Surroundings(stored), Surroundings(again));
}

}  // namespace mixerbench::harness
