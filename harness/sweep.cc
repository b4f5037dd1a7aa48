// SPDX-License-Identifier: Apache-2.0
#include "harness/sweep.h"

#include <algorithm>

#include "base/error.h"
#include "harness/read_value.h"
#include "harness/value_path.h"
#include "reports/json.h"

namespace mixerbench::harness {
namespace {

constexpr std::size_t kMaxCells = 100'000;

// Short text of a swept value: a mixer's name and options, the items of a list joined by "+", a
// number, else canonical JSON.
std::string AxisText(const Value& value) {
  if (value.is_string()) return value.as_string();
  if (value.is_array()) {
    std::string text;
    for (const Value& item : value.as_array()) text += (text.empty() ? "" : "+") + AxisText(item);
    return text;
  }
  if (const Value* pattern = value.Find("pattern")) return AxisText(*pattern);  // names its layers
  if (const Value* name = value.Find("name"); name && name->is_string()) {
    std::string text = name->as_string();
    for (const auto& [key, item] : value.as_object()) {
      if (key != "name") text += "," + key + "=" + AxisText(item);
    }
    return text;
  }
  return reports::DumpJson(value);
}

void RequireSweepable(const std::string& path, const std::string& where) {
  static const std::vector<std::string> kRoots = {"model", "task", "train"};
  const std::string root = path.substr(0, path.find('.'));
  if (root == path || std::find(kRoots.begin(), kRoots.end(), root) == kRoots.end()) {
    throw ConfigError(where,
                      "only model.*, task.* and train.* can be swept; write the full "
                      "dotted path, such as train.lr");
  }
}

const Array& RequireAxis(const Value& values, const std::string& where) {
  if (!values.is_array() || values.as_array().empty()) {
    throw ConfigError(where, "expected a list of values with at least one entry");
  }
  return values.as_array();
}

bool Excluded(const SweepPoint& point, const Value& rules) {
  for (const Value& rule : rules.as_array()) {
    const bool all_match =
        std::all_of(rule.as_object().begin(), rule.as_object().end(), [&](const auto& condition) {
          const Value* found = FindPath(point.document, condition.first);
          return found && *found == condition.second;
        });
    if (all_match) return true;
  }
  return false;
}

}  // namespace

std::vector<SweepPoint> ExpandSweep(const Object& document) {
  std::vector<SweepPoint> points = {{document, {}}};
  const auto found = document.find("sweep");
  if (found == document.end()) return points;
  const Value& sweep = found->second;
  RequireKnownKeys(sweep, "/sweep", {"exclude", "grid", "zip"});

  // Multiplies the points by positions 0..count-1 of axes that move together.
  const auto multiply = [&](const std::vector<std::pair<std::string, const Array*>>& axes,
                            std::size_t count) {
    std::vector<SweepPoint> next;
    for (const SweepPoint& point : points) {
      for (std::size_t i = 0; i < count; ++i) {
        SweepPoint grown = point;
        for (const auto& [path, values] : axes) {
          SetPath(grown.document, path, (*values)[i], "/sweep");
          grown.axes.emplace_back(path, AxisText((*values)[i]));
        }
        next.push_back(std::move(grown));
      }
    }
    if (next.size() > kMaxCells) {
      throw ConfigError("/sweep",
                        "more than " + std::to_string(kMaxCells) + " cells; split the suite");
    }
    points = std::move(next);
  };

  if (const Value* grid = sweep.Find("grid")) {
    if (!grid->is_object()) throw ConfigError("/sweep/grid", "expected an object of path: values");
    for (const auto& [path, values] : grid->as_object()) {
      const std::string where = "/sweep/grid/" + path;
      RequireSweepable(path, where);
      const Array& axis = RequireAxis(values, where);
      multiply({{path, &axis}}, axis.size());
    }
  }
  if (const Value* zip = sweep.Find("zip")) {
    if (!zip->is_object() || zip->as_object().empty()) {
      throw ConfigError("/sweep/zip", "expected an object of path: values");
    }
    std::vector<std::pair<std::string, const Array*>> axes;
    for (const auto& [path, values] : zip->as_object()) {
      const std::string where = "/sweep/zip/" + path;
      RequireSweepable(path, where);
      const Array& axis = RequireAxis(values, where);
      if (!axes.empty() && axis.size() != axes.front().second->size()) {
        throw ConfigError(where, "zipped lists need equal lengths");
      }
      axes.emplace_back(path, &axis);
    }
    multiply(axes, axes.front().second->size());
  }
  if (const Value* rules = sweep.Find("exclude")) {
    if (!rules->is_array()) throw ConfigError("/sweep/exclude", "expected a list of objects");
    for (std::size_t i = 0; i < rules->as_array().size(); ++i) {
      const Value& rule = rules->as_array()[i];
      if (!rule.is_object() || rule.as_object().empty()) {
        throw ConfigError("/sweep/exclude/" + std::to_string(i),
                          "expected an object such as {\"train.lr\": 0.01}");
      }
    }
    std::erase_if(points, [&](const SweepPoint& point) { return Excluded(point, *rules); });
  }
  return points;
}

}  // namespace mixerbench::harness
