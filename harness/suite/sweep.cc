// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/sweep.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/dotted_path.h"
#include "base/error.h"
#include "base/suggest.h"
#include "harness/suite/axis_text.h"
#include "harness/suite/section_forms.h"
#include "io/json.h"
#include "io/value_path.h"

namespace mixerbench::harness {
namespace {

// Paths with as many values each, which move together.
using Axes = std::vector<std::pair<std::string, const Array*>>;

Axes ReadAxes(const Value& object) {
  Axes axes;
  for (const auto& [path, values] : object.as_object()) axes.emplace_back(path, &values.as_array());
  return axes;
}

// A value that stands there twice would be run once and counted as two.
void RequireDistinct(const Axes& axes, const std::string& where) {
  std::set<std::string> known;
  for (std::size_t i = 0; i < axes.front().second->size(); ++i) {
    std::string key;
    for (const auto& [path, values] : axes) key += io::DumpJson((*values)[i]) + "\n";
    if (known.insert(key).second) continue;
    throw ConfigError(where + "/" + std::to_string(i),
                      AxisText((*axes.front().second)[i]) + " stands there already");
  }
}

// The factors of a sweep of the right form: each axis of the grid, then each zip.
std::vector<Axes> ReadFactors(const Value& sweep) {
  std::vector<Axes> factors;
  if (const Value* grid = sweep.Find("grid"); grid && !(*grid == Value(Object{}))) {
    for (const auto& axis : ReadAxes(*grid)) {
      factors.push_back({axis});
      RequireDistinct(factors.back(), "/sweep/grid/" + axis.first);
    }
  }
  const auto read_zip = [&](const Value& zip, const std::string& where) {
    const Axes axes = ReadAxes(zip);
    for (const auto& [path, values] : axes) {
      if (values->size() == axes.front().second->size()) continue;
      throw ConfigError(where + "/" + path, "zipped lists need equal lengths");
    }
    RequireDistinct(axes, where + "/" + axes.front().first);
    factors.push_back(axes);
  };
  if (const Value* zip = sweep.Find("zip"); zip && zip->is_array()) {
    for (std::size_t i = 0; i < zip->as_array().size(); ++i) {
      read_zip(zip->as_array()[i], "/sweep/zip/" + std::to_string(i));
    }
  } else if (zip) {
    read_zip(*zip, "/sweep/zip");
  }
  std::set<std::string> paths;
  for (const Axes& factor : factors) {
    for (const auto& [path, values] : factor) {
      if (!paths.insert(path).second) throw ConfigError("/sweep", "'" + path + "' is swept twice");
    }
  }
  return factors;
}

// Paths of /sweep/grid over which reports choose the best setting.
void CheckSelect(const Value& select, const Value& sweep) {
  const std::string where = "/sweep/select";
  if (const Value* reseed = select.Find("reseed")) {
    const Value* base = reseed->Find("base");
    if (base && base->as_int() > INT64_MAX - reseed->Find("count")->as_int()) {
      throw ConfigError(where + "/reseed/base", "the last seed needs 64 bits");
    }
  }
  if (select.Find("by")->as_string() != "validation.accuracy") {
    throw ConfigError(where + "/by", "only validation.accuracy may decide; test results never do");
  }
  const Array& over = select.Find("over")->as_array();
  const Value* grid = sweep.Find("grid");
  for (std::size_t i = 0; i < over.size(); ++i) {
    const std::string& path = over[i].as_string();
    if (!grid || !grid->Find(path)) {
      throw ConfigError(where + "/over/" + std::to_string(i),
                        "'" + path + "' is no axis of sweep.grid");
    }
  }
}

// A condition on `path` must name an axis, or an option inside one, and one of its values.
void CheckCondition(const std::string& path, const Value& wanted, const std::vector<Axes>& factors,
                    const std::string& where) {
  std::vector<std::string> known;
  std::string texts;
  for (const Axes& factor : factors) {
    for (const auto& [axis, values] : factor) {
      known.push_back(axis);
      if (!LiesIn(path, axis)) continue;
      for (const Value& value : *values) {
        const Object holder = {{"value", value}};
        const Value* found = io::FindPath(holder, "value" + path.substr(axis.size()));
        if (found == nullptr) continue;
        if (*found == wanted) return;
        texts += (texts.empty() ? "" : ", ") + AxisText(*found);
      }
    }
  }
  if (texts.empty()) throw ConfigError(where, UnknownName("axis", path, known));
  throw ConfigError(where, "excludes nothing: " + AxisText(wanted) + " is none of " + texts);
}

// One value of each axis.
struct Choice {
  std::map<std::string, const Value*> values;  // by path: what lies inside another one comes later
  std::vector<std::pair<std::string, std::string>> axes;  // as SweepPoint
};

bool Excluded(const SweepPoint& point, const Value& rules) {
  for (const Value& rule : rules.as_array()) {
    const bool all_match =
        std::all_of(rule.as_object().begin(), rule.as_object().end(), [&](const auto& condition) {
          const Value* found = io::FindPath(point.document, condition.first);
          return found && *found == condition.second;
        });
    if (all_match) return true;
  }
  return false;
}

}  // namespace

void CheckExclude(const Object& document) {
  const auto sweep = document.find("sweep");
  const Value* rules = sweep == document.end() ? nullptr : sweep->second.Find("exclude");
  if (rules == nullptr) return;
  SweepForm().check(sweep->second, "/sweep");
  const std::vector<Axes> factors = ReadFactors(sweep->second);
  const Array& list = rules->as_array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (const auto& [path, value] : list[i].as_object()) {
      CheckCondition(path, value, factors, "/sweep/exclude/" + std::to_string(i) + "/" + path);
    }
  }
}

std::vector<SweepPoint> ExpandSweep(const Object& document) {
  const auto found = document.find("sweep");
  if (found == document.end()) return {{document, {}}};
  const Value& sweep = found->second;
  SweepForm().check(sweep, "/sweep");
  if (const Value* select = sweep.Find("select")) CheckSelect(*select, sweep);
  const std::vector<Axes> factors = ReadFactors(sweep);
  std::size_t num_points = 1;
  for (const Axes& factor : factors) {
    num_points *= factor.front().second->size();  // no overflow: files are limited
    if (num_points <= kMaxCells) continue;
    throw ConfigError("/sweep",
                      "more than " + std::to_string(kMaxCells) + " cells; split the suite");
  }
  std::vector<Choice> choices(1);
  for (const Axes& factor : factors) {
    std::vector<std::vector<std::string>> texts;
    for (const auto& [path, values] : factor) texts.push_back(AxisTexts(*values));
    std::vector<Choice> next;
    for (const Choice& choice : choices) {
      for (std::size_t i = 0; i < factor.front().second->size(); ++i) {
        Choice grown = choice;
        for (std::size_t j = 0; j < factor.size(); ++j) {
          const auto& [path, values] = factor[j];
          grown.values[path] = &(*values)[i];
          grown.axes.emplace_back(path, texts[j][i]);
        }
        next.push_back(std::move(grown));
      }
    }
    choices = std::move(next);
  }
  std::vector<SweepPoint> points;
  for (Choice& choice : choices) {
    SweepPoint point{document, std::move(choice.axes)};
    for (const auto& [path, value] : choice.values) {
      io::SetPath(point.document, path, *value, "/sweep");
    }
    points.push_back(std::move(point));
  }
  if (const Value* rules = sweep.Find("exclude")) {
    std::erase_if(points, [&](const SweepPoint& point) { return Excluded(point, *rules); });
  }
  return points;
}

}  // namespace mixerbench::harness
