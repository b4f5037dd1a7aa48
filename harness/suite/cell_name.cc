// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/cell_name.h"

#include <algorithm>

#include "base/error.h"
#include "io/read_value.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::harness {
namespace {

// Code points of valid UTF-8: bytes that do not continue one.
std::ptrdiff_t NumCharacters(const std::string& text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace

std::string TakeLabel(Value& model) {
  const Value* mixer = model.Find("sequence_mixer");
  const Value* given = mixer ? mixer->Find("label") : nullptr;
  if (!given) return "";
  const std::string where = "/model/sequence_mixer/label";
  constexpr std::ptrdiff_t kMaxLabel = 40;
  std::string label = io::ReadName(*given, where);
  const bool is_plain = std::none_of(label.begin(), label.end(), [](char c) {
    return c == '/' || c == ',' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (label.empty() || NumCharacters(label) > kMaxLabel || !is_plain) {
    throw ConfigError(where, "expected 1 to " + std::to_string(kMaxLabel) +
                                 " characters without '/', ',' and controls");
  }
  model.as_object().at("sequence_mixer").as_object().erase("label");
  return label;
}

std::string CellNameOf(const SweepPoint& point, const Cell& cell, const std::string& label,
                       const std::map<std::string, std::string>& keys) {
  std::string mixer = reports::MixerText(*cell.model.Find("sequence_mixer"));
  std::string variant;
  for (const auto& [path, text] : point.axes) {
    if (path == "model.sequence_mixer") {
      mixer = text;
    } else {
      variant += (variant.empty() ? "" : ",") + keys.at(path) + "=" + text;
    }
  }
  if (!label.empty()) mixer = label;
  return cell.task.name + "/" + mixer + (variant.empty() ? "" : "/" + variant);
}

}  // namespace mixerbench::harness
