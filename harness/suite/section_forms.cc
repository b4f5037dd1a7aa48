// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/section_forms.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness/suite/cell.h"

namespace mixerbench::harness {
namespace {

using io::ClosedForm;
using io::IntegerForm;
using io::ListForm;
using io::ObjectForm;
using io::TextForm;

constexpr std::int64_t kMaxSeeds = 10'000;

io::Form AxisForm() { return ListForm(io::AnyForm(), "a list of values with at least one entry"); }

void RequireSweepable(const std::string& path, const std::string& where) {
  static const std::vector<std::string> kRoots = {"model", "task", "train"};
  const std::string root = path.substr(0, path.find('.'));
  if (root == path || std::find(kRoots.begin(), kRoots.end(), root) == kRoots.end()) {
    throw ConfigError(where,
                      "only model.*, task.* and train.* can be swept; write the full "
                      "dotted path, such as train.lr");
  }
}

void CheckAxes(const Value& axes, const std::string& where) {
  if (!axes.is_object() || axes.as_object().empty()) {
    throw ConfigError(where, "expected an object of path: values");
  }
  static const io::Form axis = AxisForm();
  for (const auto& [path, values] : axes.as_object()) {
    const std::string place = where + "/" + path;
    RequireSweepable(path, place);
    axis.check(values, place);
  }
}

void CheckTaps(const Value& value, const std::string& where) {
  if (value.is_string() && value.as_string() == kAllTaps) return;
  static const io::Form list =
      ListForm(TextForm(), "\"all\" or a list of names, such as [\"write_gate\"]");
  list.check(value, where);
  const Array& taps = value.as_array();
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const std::string place = where + "/" + std::to_string(i);
    const std::string& name = taps[i].as_string();
    if (name.empty() || name.find('.') != name.npos || name == kAllTaps) {
      throw ConfigError(place, "'" + name + "' names no tap; layers are reported one by one");
    }
    const auto end = taps.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(taps.begin(), end, taps[i]) != end) {
      throw ConfigError(place, "'" + name + "' stands there already");
    }
  }
}

Object AxesSchema() {
  return Object{{"type", "object"},
                {"propertyNames", Object{{"pattern", "^(model|task|train)\\."}}},
                {"additionalProperties", AxisForm().schema}};
}

// Of no axes too. The mixers may be all that there are, which are listed before this is checked.
io::Form GridForm() {
  Object schema = AxesSchema();
  const Object all = {{"const", "all"}};
  schema["properties"] =
      Object{{"model.sequence_mixer", Object{{"anyOf", Array{all, AxisForm().schema}}}}};
  return {.schema = std::move(schema), .check = [](const Value& axes, const std::string& where) {
            if (!(axes == Value(Object{}))) CheckAxes(axes, where);
          }};
}

// Axes, or a list of them, each of which is a factor of its own.
io::Form ZipForm() {
  Object axes = AxesSchema();
  axes["minProperties"] = 1;
  const Object list = {{"type", "array"}, {"items", axes}};
  return {.schema = Object{{"anyOf", Array{axes, list}}},
          .check = [](const Value& zip, const std::string& where) {
            if (!zip.is_array()) return CheckAxes(zip, where);
            const Array& factors = zip.as_array();
            for (std::size_t i = 0; i < factors.size(); ++i) {
              CheckAxes(factors[i], where + "/" + std::to_string(i));
            }
          }};
}

// Objects with at least one condition each.
io::Form ExcludeForm() {
  const Object rule = {{"type", "object"}, {"minProperties", 1}};
  return {.schema = Object{{"type", "array"}, {"items", rule}},
          .check = [](const Value& rules, const std::string& where) {
            if (!rules.is_array()) throw ConfigError(where, "expected a list of objects");
            const Array& list = rules.as_array();
            for (std::size_t i = 0; i < list.size(); ++i) {
              if (list[i].is_object() && !list[i].as_object().empty()) continue;
              throw ConfigError(where + "/" + std::to_string(i),
                                "expected an object such as {\"train.lr\": 0.01}");
            }
          }};
}

// How many fresh seeds report a chosen setting, and the first of them.
io::Form ReseedForm() {
  return ClosedForm({{"base", IntegerForm(0), "the first fresh seed"},
                     {"count", IntegerForm(1, kMaxSeeds), "how many follow each other", true}});
}

io::Form SelectForm() {
  return ClosedForm({{"by", TextForm(), "what decides: validation.accuracy", true},
                     {"over", ListForm(TextForm(), "a list of values with at least one entry"),
                      "axes of the grid of which the best setting is reported", true},
                     {"reseed", ReseedForm(), "runs what was chosen with fresh seeds"}});
}

}  // namespace

const io::Form& SeedsForm() {
  static const io::Form form =
      ClosedForm({{"base", IntegerForm(0), "the first seed"},
                  {"count", IntegerForm(1, kMaxSeeds), "how many follow each other"}});
  return form;
}

const io::Form& SweepForm() {
  static const io::Form form =
      ClosedForm({{"exclude", ExcludeForm(), "points that are left out, by values of axes"},
                  {"grid", GridForm(), "axes whose product is run"},
                  {"select", SelectForm(), "the setting that reports choose, on validation"},
                  {"zip", ZipForm(), "axes that move together"}});
  return form;
}

const io::Form& TapsForm() {
  const Object name = {{"type", "string"},
                       {"pattern", "^[^.]+$"},
                       {"not", Object{{"const", std::string(kAllTaps)}}}};
  static const io::Form form = {
      .schema = Object{{"anyOf", Array{Object{{"const", std::string(kAllTaps)}},
                                       Object{{"type", "array"},
                                              {"items", name},
                                              {"minItems", 1},
                                              {"uniqueItems", true}}}}},
      .check = CheckTaps};
  return form;
}

const io::Form& CollectionForm() {
  static const io::Form item =
      ClosedForm({{"name", TextForm(), "of the suite's folder, its own unless it says otherwise"},
                  {"set", ObjectForm(), "values by dotted paths, as --set takes them"},
                  {"suite", TextForm(), "a built-in suite or a file beside this one", true}});
  static const io::Form form = ClosedForm(
      {{"$schema", io::AnyForm()},
       {"description", TextForm()},
       {"name", TextForm(), "of the folder", true},
       {"schema_version", TextForm(), "1.x"},
       {"score", ObjectForm(), "one number for each mixer of all suites"},
       {"suites", ListForm(item, "a list of objects with at least one entry"), "", true}});
  return form;
}

}  // namespace mixerbench::harness
