// SPDX-License-Identifier: Apache-2.0
#include "harness/sweep.h"

#include <algorithm>

#include "base/error.h"
#include "harness/read_value.h"
#include "harness/value_path.h"
#include "reports/json.h"

namespace mixerbench::harness {
namespace {

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

// Paths of /sweep/grid over which reports choose the best setting.
void CheckSelect(const Value& select, const Value& sweep) {
  const std::string where = "/sweep/select";
  RequireKnownKeys(select, where, {"by", "over"});
  const Value& by = RequireMember(select, where, "by");
  if (ReadName(by, where + "/by") != "validation.accuracy") {
    throw ConfigError(where + "/by", "only validation.accuracy may decide; test results never do");
  }
  const Array& over = RequireAxis(RequireMember(select, where, "over"), where + "/over");
  const Value* grid = sweep.Find("grid");
  for (std::size_t i = 0; i < over.size(); ++i) {
    const std::string place = where + "/over/" + std::to_string(i);
    const std::string path = ReadName(over[i], place);
    if (!grid || !grid->Find(path)) {
      throw ConfigError(place, "'" + path + "' is no axis of sweep.grid");
    }
  }
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
  RequireKnownKeys(sweep, "/sweep", {"exclude", "grid", "select", "zip"});
  if (const Value* select = sweep.Find("select")) CheckSelect(*select, sweep);

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
  const auto multiply_zipped = [&](const Value& zip, const std::string& place) {
    if (!zip.is_object() || zip.as_object().empty()) {
      throw ConfigError(place, "expected an object of path: values, or a list of such objects");
    }
    std::vector<std::pair<std::string, const Array*>> axes;
    for (const auto& [path, values] : zip.as_object()) {
      const std::string where = place + "/" + path;
      RequireSweepable(path, where);
      const Array& axis = RequireAxis(values, where);
      if (!axes.empty() && axis.size() != axes.front().second->size()) {
        throw ConfigError(where, "zipped lists need equal lengths");
      }
      axes.emplace_back(path, &axis);
    }
    multiply(axes, axes.front().second->size());
  };
  if (const Value* zip = sweep.Find("zip"); zip && zip->is_array()) {
    for (std::size_t i = 0; i < zip->as_array().size(); ++i) {
      multiply_zipped(zip->as_array()[i], "/sweep/zip/" + std::to_string(i));
    }
  } else if (zip) {
    multiply_zipped(*zip, "/sweep/zip");
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
