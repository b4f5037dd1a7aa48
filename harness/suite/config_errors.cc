// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/config_errors.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/dotted_path.h"
#include "io/json_position.h"

namespace mixerbench::harness {
namespace {

using Steps = std::vector<std::string>;

std::string Dotted(const Steps& steps) {
  std::string path;
  for (const std::string& step : steps) path += (path.empty() ? "" : ".") + step;
  return path;
}

// Wrong whatever the rest of the suite says.
bool IsLocal(const ConfigError& error) {
  constexpr const char* kStarts[] = {"unknown ", "expected ", "must be in ", "must be >= "};
  return std::any_of(std::begin(kStarts), std::end(kStarts),
                     [&](const char* start) { return error.reason().starts_with(start); });
}

// Where in a document values stand by dotted paths in place of those of its sections: axes of the
// sweep, and the reduced form.
std::vector<Steps> TablesOfPaths(const Value& document, bool smoke) {
  std::vector<Steps> tables;
  if (smoke) tables.push_back({"smoke"});
  const Value* sweep = document.Find("sweep");
  if (sweep == nullptr) return tables;
  for (const char* kind : {"grid", "zip"}) {
    const Value* axes = sweep->Find(kind);
    if (axes == nullptr) continue;
    if (axes->is_object()) tables.push_back({"sweep", kind});
    if (!axes->is_array()) continue;
    for (std::size_t i = 0; i < axes->as_array().size(); ++i) {
      tables.push_back({"sweep", kind, std::to_string(i)});
    }
  }
  return tables;
}

// Nothing when the steps lead nowhere.
const Value* Follow(const Value& document, const Steps& steps) {
  const Value* value = &document;
  for (const std::string& step : steps) {
    if (value->is_array()) {
      std::size_t index = 0;
      const auto parsed = std::from_chars(step.data(), step.data() + step.size(), index);
      if (parsed.ec != std::errc() || index >= value->as_array().size()) return nullptr;
      value = &value->as_array()[index];
    } else {
      value = value->Find(step);
    }
    if (value == nullptr) return nullptr;
  }
  return value;
}

// The last --set that gives the value at a path.
io::Settings::const_iterator FindSetting(const io::Settings& settings, const std::string& path) {
  const auto found = std::find_if(settings.rbegin(), settings.rend(),
                                  [&](const auto& setting) { return LiesIn(path, setting.first); });
  return found == settings.rend() ? settings.end() : std::prev(found.base());
}

// Options of a split that stand in the task, for all splits, or in train, for validation.
Steps StandsAt(const Value& document, const io::Settings& settings, const Steps& steps) {
  if (steps.size() < 3 || steps[0] != "task") return steps;
  const std::string& option = steps[2];
  for (const Steps& owner : {Steps{"task", steps[1]}, Steps{"task", "train"}, Steps{"task"}}) {
    Steps place = owner;
    place.push_back(option);
    const bool is_set = FindSetting(settings, Dotted(place)) != settings.end();
    if (!is_set && Follow(document, place) == nullptr) continue;
    place.insert(place.end(), steps.begin() + 3, steps.end());
    return place;
  }
  return steps;
}

// The entry of such a table that gives the value that the steps lead to.
std::optional<Steps> FindInTables(const Value& document, bool smoke, const Steps& steps) {
  for (Steps table : TablesOfPaths(document, smoke)) {
    const Value* entries = Follow(document, table);
    if (entries == nullptr || !entries->is_object()) continue;
    for (const auto& [path, values] : entries->as_object()) {
      if (!LiesIn(Dotted(steps), path)) continue;
      table.push_back(path);
      return table;
    }
  }
  return std::nullopt;
}

// The --set that an error is of. An axis that it adds stands in the grid under its own path.
io::Settings::const_iterator FindSettingOf(const std::string& where, const Value& document,
                                           const io::Settings& settings) {
  constexpr std::string_view kSet = "--set ";
  if (where.starts_with(kSet)) return FindSetting(settings, where.substr(kSet.size()));
  Steps steps = io::PointerSteps(where);
  if (steps.size() > 2 && steps[0] == "sweep" && steps[1] == "grid") {
    steps.erase(steps.begin(), steps.begin() + 2);
  }
  return FindSetting(settings, Dotted(StandsAt(document, settings, steps)));
}

// " (line 3, column 5)", " (--set train.lr)"; of what is missing, where its owner stands. Empty for
// what is neither in the text nor set.
std::string PlaceOf(const ConfigError& error, std::string_view text, const Value& document,
                    const SuiteOverrides& overrides) {
  if (error.where().starts_with("--set ")) return "";
  const auto setting = FindSettingOf(error.where(), document, overrides.set);
  if (setting != overrides.set.end()) return " (--set " + setting->first + ")";
  if (!error.where().starts_with("/")) return "";
  Steps steps = io::PointerSteps(error.where());
  // A rule over several options, of which the file may have the others.
  const bool sets_part =
      std::any_of(overrides.set.begin(), overrides.set.end(),
                  [&](const auto& each) { return LiesIn(each.first, Dotted(steps)); });
  if (sets_part) return "";
  if (const auto entry = FindInTables(document, overrides.smoke, steps)) {
    steps = *entry;
  } else {
    steps = StandsAt(document, overrides.set, steps);
  }
  for (; !steps.empty(); steps.pop_back()) {
    if (const auto found = io::FindPosition(text, steps)) {
      return " (line " + std::to_string(found->line) + ", column " + std::to_string(found->column) +
             ")";
    }
  }
  return "";
}

// Takes the member that is wrong out of what gives it; of a list all. False when that is not known.
bool TakeOut(const ConfigError& error, Value& document, SuiteOverrides& overrides) {
  const auto setting = FindSettingOf(error.where(), document, overrides.set);
  if (setting != overrides.set.end()) {
    overrides.set.erase(setting);
    return true;
  }
  const Steps steps = io::PointerSteps(error.where());
  if (FindInTables(document, overrides.smoke, steps)) return false;  // one value of several
  const Steps place = StandsAt(document, overrides.set, steps);
  Value* owner = &document;
  for (const std::string& step : place) {
    if (!owner->is_object() || !owner->as_object().contains(step)) return false;
    Value& member = owner->as_object().at(step);
    if (!member.is_object() || &step == &place.back()) {
      owner->as_object().erase(step);
      return true;
    }
    owner = &member;
  }
  return false;
}

// Whether an error may be there only because members were taken out: rules over several options are
// not told then.
bool MayFollow(const ConfigError& error, const std::vector<ConfigError>& taken) {
  if (!IsLocal(error)) return true;
  const auto holds = [](const std::string& a, const std::string& b) {
    return LiesIn(Dotted(io::PointerSteps(b)), Dotted(io::PointerSteps(a)));
  };
  return std::any_of(taken.begin(), taken.end(), [&](const ConfigError& other) {
    return holds(error.where(), other.where()) || holds(other.where(), error.where());
  });
}

std::vector<ConfigError> ErrorsIn(const ConfigError& error) {
  const auto* several = dynamic_cast<const ConfigErrors*>(&error);
  return several != nullptr ? several->errors() : std::vector{error};
}

std::string TextOf(const ConfigError& error) {
  return error.where().empty() ? error.reason() : error.where() + ": " + error.reason();
}

}  // namespace

void ErrorCollector::Add(const ConfigError& error) {
  const auto is_same = [&](const ConfigError& other) { return TextOf(other) == TextOf(error); };
  if (std::none_of(errors_.begin(), errors_.end(), is_same)) errors_.push_back(error);
}

void ErrorCollector::ThrowAny() const {
  if (!is_empty()) throw ConfigErrors(errors_);
}

void ThrowAllErrors(std::string_view text, const Value& document, const SuiteOverrides& overrides,
                    const std::function<void(const Value&, const SuiteOverrides&)>& check,
                    const ConfigError& first) {
  std::vector<ConfigError> errors = ErrorsIn(first), met = errors, taken;
  std::set<std::string> known;
  for (const ConfigError& error : errors) known.insert(TextOf(error));
  Value rest = document;
  SuiteOverrides rest_overrides = overrides;
  while (errors.size() < kMaxErrors) {
    bool is_changed = false;
    for (const ConfigError& error : met) {
      if (!IsLocal(error) || !TakeOut(error, rest, rest_overrides)) continue;
      taken.push_back(error);
      is_changed = true;
    }
    if (!is_changed) break;
    try {
      check(rest, rest_overrides);
      break;
    } catch (const ConfigError& next) {
      met = ErrorsIn(next);
    } catch (const Error&) {
      break;
    }
    for (const ConfigError& error : met) {
      if (!MayFollow(error, taken) && known.insert(TextOf(error)).second) errors.push_back(error);
    }
  }
  const auto with_place = [&](const ConfigError& error) {
    return TextOf(error) + PlaceOf(error, text, document, overrides);
  };
  if (errors.size() == 1) {
    throw ConfigError(first.where(), first.reason() + PlaceOf(first, text, document, overrides));
  }
  const std::size_t num_told = std::min(errors.size(), kMaxErrors);
  std::string all = errors.size() > num_told ? "the first " + std::to_string(num_told) + " errors:"
                                             : std::to_string(num_told) + " errors:";
  for (std::size_t i = 0; i < num_told; ++i) all += "\n  " + with_place(errors[i]);
  throw ConfigError("", all);
}

}  // namespace mixerbench::harness
