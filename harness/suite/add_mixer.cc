// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/add_mixer.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "harness/python/python_mixer.h"
#include "harness/suite/swept_axes.h"
#include "io/json.h"
#include "io/value_path.h"

namespace mixerbench::harness {
namespace {

constexpr char kFlag[] = "--add-mixer";
constexpr char kPath[] = "model.sequence_mixer";

Value ParseMixer(const std::string& text) {
  if (!text.starts_with('{')) return NameMixer(text);
  try {
    Value mixer = io::ParseJson(text);
    const Value* name = mixer.Find("name");
    if (name != nullptr && name->is_string()) return mixer;
  } catch (const ConfigError& error) {
    throw ConfigError(kFlag, error.what());
  }
  throw ConfigError(
      kFlag,
      R"(expected a name, FILE.py:Class or an object such as {"name": "gla", "num_heads": 2})");
}

const Array* PatternOf(const Value& mixer) {
  const Value* pattern = mixer.Find("pattern");
  return pattern != nullptr && pattern->is_array() ? &pattern->as_array() : nullptr;
}

// A label is the name of one mixer, and says nothing of what it is.
Value WithoutLabel(Value mixer) {
  mixer.as_object().erase("label");
  return mixer;
}

// The mixer but for its label and the given layer of its pattern.
Value WithoutLayer(const Value& labelled, std::size_t layer) {
  Value mixer = WithoutLabel(labelled);
  mixer.as_object()["pattern"].as_array()[layer] = Value();
  return mixer;
}

// The one layer in which hybrids differ.
std::optional<std::size_t> DifferingLayer(const Array& hybrids) {
  const std::size_t size = PatternOf(hybrids.front())->size();
  for (const Value& hybrid : hybrids) {
    if (PatternOf(hybrid)->size() != size) return std::nullopt;
  }
  for (std::size_t layer = 0; layer < size && hybrids.size() > 1; ++layer) {
    const Value shared = WithoutLayer(hybrids.front(), layer);
    const bool is_shared = std::all_of(hybrids.begin(), hybrids.end(), [&](const Value& hybrid) {
      return WithoutLayer(hybrid, layer) == shared;
    });
    if (is_shared) return layer;
  }
  return std::nullopt;
}

// `mixer` as its neighbours stand in the suite.
Value UnderTheirConditions(const Value& mixer, const Array& neighbours) {
  const bool all_hybrids = std::all_of(neighbours.begin(), neighbours.end(),
                                       [](const Value& v) { return PatternOf(v); });
  if (!all_hybrids || PatternOf(mixer) != nullptr) return mixer;
  const auto layer = DifferingLayer(neighbours);
  if (!layer) {
    throw ConfigError(
        kFlag,
        "the mixers of this suite are hybrids that do not differ in exactly one layer; "
        R"(give the whole one: {"name": "hybrid", "pattern": [...]})");
  }
  Value hybrid = WithoutLabel(neighbours.front());
  hybrid.as_object()["pattern"].as_array()[*layer] = mixer;
  return hybrid;
}

Value MostFrequent(const Array& values) {
  const auto count = [&](const Value& v) { return std::count(values.begin(), values.end(), v); };
  // The last of equals.
  return *std::max_element(values.rbegin(), values.rend(),
                           [&](const Value& a, const Value& b) { return count(a) < count(b); });
}

// Whether the axes have one of mixers, which it lengthens.
bool Extend(Object& axes, const Value& mixer) {
  const auto axis = axes.find(kPath);
  if (axis == axes.end() || !axis->second.is_array() || axis->second.as_array().empty()) {
    return false;
  }
  Array& mixers = axis->second.as_array();
  mixers.push_back(UnderTheirConditions(mixer, mixers));
  return true;
}

void LengthenOthers(Object& zip) {
  for (auto& [path, values] : zip) {
    if (path == kPath || !values.is_array() || values.as_array().empty()) continue;
    values.as_array().push_back(MostFrequent(values.as_array()));
  }
}

}  // namespace

void AddMixer(Object& document, const std::string& text) {
  const Value mixer = ParseMixer(text);
  Value& sweep = document.try_emplace("sweep", Object{}).first->second;
  if (!sweep.is_object()) return;  // an error of the suite, which is told where it is read
  for (const SweptAxes& swept : SweptAxesOf(document)) {
    if (!Extend(*swept.axes, mixer)) continue;
    if (swept.is_zip) LengthenOthers(*swept.axes);
    return;
  }
  const Value* own = io::FindPath(document, kPath);
  if (own == nullptr) throw ConfigError("/model/sequence_mixer", "missing; the suite has no mixer");
  Value& grid = sweep.as_object().try_emplace("grid", Object{}).first->second;
  if (!grid.is_object()) return;
  grid.as_object()[kPath] = Array{*own, UnderTheirConditions(mixer, {*own})};
}

}  // namespace mixerbench::harness
