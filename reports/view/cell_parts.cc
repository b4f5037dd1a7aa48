// SPDX-License-Identifier: Apache-2.0
#include "reports/view/cell_parts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {
namespace {

constexpr std::array<std::string_view, 5> kSizeKeys = {"input_seq_len", "num_kv_pairs",
                                                       "vocab_size", "d_model", "n_layers"};

// Sizes of the task come first in the head of a table, then those of the model, then the rate.
std::size_t Weight(const std::string& key) {
  const auto found = std::find(kSizeKeys.begin(), kSizeKeys.end(), key);
  const auto weight = static_cast<std::size_t>(found - kSizeKeys.begin());
  return weight + (found == kSizeKeys.end() && key != "lr" ? 1 : 0);
}

}  // namespace

std::string MixerKey(const std::string& cell_name) {
  const CellName name = SplitCellName(cell_name);
  return name.mixer.empty() ? cell_name : name.mixer;
}

bool IsSizeKey(const std::string& key) {
  return std::find(kSizeKeys.begin(), kSizeKeys.end(), key) != kSizeKeys.end();
}

bool KeyLess(const std::string& a, const std::string& b) {
  return std::pair(Weight(a), a) < std::pair(Weight(b), b);
}

bool ValueLess(const std::string& a, const std::string& b) {
  const auto x = NumberOf(a);
  const auto y = NumberOf(b);
  if (x && y && *x != *y) return *x < *y;
  if (x.has_value() != y.has_value()) return x.has_value();
  return a < b;
}

std::string PartText(const std::string& key, const std::string& value) {
  static const std::map<std::string, std::string> kUnits = {{"input_seq_len", " tokens"},
                                                            {"num_kv_pairs", " pairs"},
                                                            {"n_layers", " layers"},
                                                            {"gap", " apart"},
                                                            {"num_needle_k", " needles"}};
  const auto number = NumberOf(value);
  if (const auto unit = kUnits.find(key); unit != kUnits.end() && number) {
    return Count(*number) + unit->second;
  }
  if (key == "d_model") return "d " + value;
  if (key == "lr" && number && *number > 0) return "lr " + RateText(*number);
  if (key == "dtype" || key == "device") return value;
  if (key == "batch_size") return "batch " + value;
  return value.empty() ? key : key + " " + value;
}

std::map<std::string, std::string> PartsOf(const std::string& cell_name) {
  std::map<std::string, std::string> parts;
  std::istringstream variant(SplitCellName(cell_name).variant);
  for (std::string part; std::getline(variant, part, ',');) {
    const std::size_t equals = part.find('=');
    parts[part.substr(0, equals)] = equals == part.npos ? "" : part.substr(equals + 1);
  }
  return parts;
}

std::map<std::string, std::string> PartsOf(const GroupSummary& group) {
  return PartsOf(group.name);
}

std::string PartsText(const GroupSummary& group, const std::set<std::string>& keys) {
  std::string text;
  for (const auto& [key, value] : PartsOf(group)) {
    if (keys.contains(key)) text += (text.empty() ? "" : ", ") + PartText(key, value);
  }
  return text;
}

std::set<std::string> VaryingKeys(const SweepReport& report) {
  std::map<std::string, std::set<std::string>> keys_of;  // by mixer
  for (const GroupSummary& group : report.groups) {
    for (const auto& [key, value] : PartsOf(group)) keys_of[MixerKey(group.name)].insert(key);
  }
  std::map<std::pair<std::string, std::string>, std::set<std::string>> values;  // by mixer and key
  for (const GroupSummary& group : report.groups) {
    const std::string mixer = MixerKey(group.name);
    const auto parts = PartsOf(group);
    for (const std::string& key : keys_of[mixer]) {
      const auto found = parts.find(key);
      values[{mixer, key}].insert(found == parts.end() ? "" : found->second);
    }
  }
  std::set<std::string> varying;
  for (const auto& [of, found] : values) {
    if (found.size() > 1) varying.insert(of.second);
  }
  return varying;
}

std::set<std::string> TimingKeys(const SweepReport& report) {
  std::set<std::string> keys = VaryingKeys(report);
  for (const char* said : {"dtype", "batch_size", "input_seq_len", "num_kv_pairs"})
    keys.erase(said);
  return keys;
}

std::string SegmentText(const Object& axes, const char* between) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : axes) keys.push_back(key);
  std::sort(keys.begin(), keys.end(), KeyLess);
  std::string text;
  for (const std::string& key : keys) {
    const Value& value = axes.at(key);
    text += (text.empty() ? "" : between) + PartText(key, io::ValueText(value));
  }
  return text;
}

}  // namespace mixerbench::reports
