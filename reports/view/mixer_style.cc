// SPDX-License-Identifier: Apache-2.0
#include "reports/view/mixer_style.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/view/cell_parts.h"

namespace mixerbench::reports {
namespace {

struct Known {
  std::string_view name;
  std::string_view label;
  std::string_view colour;
  std::string_view marker;
};

constexpr std::array kKnown = std::to_array<Known>({
    {"abc", "ABC", "slot", "square"},
    {"attention", "Attention", "attention", "circle"},
    {"base_conv", "BaseConv", "base_conv", "plus"},
    {"delta_net", "DeltaNet", "delta_net", "diamond"},
    {"fox", "FoX", "attention", "diamond"},
    {"gated_delta_net", "Gated DeltaNet", "gated_delta_net", "up"},
    {"gated_delta_net_2", "Gated DeltaNet 2", "gated_delta_net", "down"},
    {"gated_delta_product", "Gated DeltaProduct", "gated_delta_net", "pentagon"},
    {"gla", "GLA", "gla", "square"},
    {"gsa", "GSA", "slot", "diamond"},
    {"h3", "H3", "base_conv", "square"},
    {"hgrn2", "HGRN2", "gla", "diamond"},
    {"hyena", "Hyena", "base_conv", "up"},
    {"kda", "KDA", "gated_delta_net", "square"},
    {"lightning", "Lightning attention", "retnet", "bar"},
    {"linear_attention", "Linear attention", "linear_attention", "bar"},
    {"log_linear", "Log-linear attention", "linear_attention", "up"},
    {"log_linear_gdn", "Log-linear Gated DeltaNet", "gated_delta_net", "bar"},
    {"lru", "LRU", "ssm", "plus"},
    {"mamba", "Mamba", "ssm", "up"},
    {"mamba2", "Mamba-2", "ssm", "square"},
    {"mamba3", "Mamba-3", "ssm", "pentagon"},
    {"mesa_net", "MesaNet", "delta_net", "square"},
    {"metala", "MetaLA", "gla", "up"},
    {"moe", "MoE", "slot", "circle"},
    {"mom", "MoM", "slot", "up"},
    {"raven", "Raven", "slot", "pentagon"},
    {"resona", "RESONA", "slot", "bar"},
    {"retnet", "RetNet", "retnet", "pentagon"},
    {"row_sparse", "Row-sparse", "slot", "plus"},
    {"rwkv5", "RWKV-5", "simple_gla", "diamond"},
    {"rwkv6", "RWKV-6", "simple_gla", "up"},
    {"rwkv7", "RWKV-7", "delta_net", "pentagon"},
    {"s4", "S4", "ssm", "bar"},
    {"s4d", "S4D", "ssm", "down"},
    {"s5", "S5", "ssm", "diamond"},
    {"s6", "S6", "ssm", "circle"},
    {"selectlti", "SelectLTI", "ssm", "square"},
    {"sila", "SILA", "linear_attention", "diamond"},
    {"simple_gla", "Simple GLA", "simple_gla", "down"},
    {"sliding_window", "Sliding window", "attention", "square"},
    {"sse", "SSE", "slot", "down"},
    {"sse_gdn", "SSE-GDN", "gated_delta_net", "diamond"},
    {"titans", "Titans", "delta_net", "up"},
    {"ttt_linear", "TTT-Linear", "delta_net", "bar"},
});

const Known* Find(std::string_view name) {
  const auto found = std::find_if(kKnown.begin(), kKnown.end(),
                                  [&](const Known& known) { return known.name == name; });
  return found == kKnown.end() ? nullptr : &*found;
}

// What shares a colour. A mixer that is not known has a colour as well, which says nothing of it.
std::string_view FamilyOf(const Known& known) {
  constexpr std::array kFamilies = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"attention", "Attention"},
       {"base_conv", "Convolutions"},
       {"delta_net", "Delta rule"},
       {"gated_delta_net", "Gated delta rule"},
       {"gla", "Gated linear attention"},
       {"linear_attention", "Linear attention"},
       {"retnet", "Fixed decay"},
       {"simple_gla", "Simple GLA and RWKV"},
       {"slot", "Slots and routing"},
       {"ssm", "State space models"}});
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(),
                                  [&](const auto& family) { return family.first == known.colour; });
  return found->second;
}

// The same for the same name, always.
Known Unknown(const std::string& name) {
  constexpr std::array<std::string_view, 10> kColours = {
      "gla",       "delta_net",        "base_conv",       "ssm",       "slot", "retnet",
      "attention", "linear_attention", "gated_delta_net", "simple_gla"};
  constexpr std::array<std::string_view, 8> kMarkers = {"circle",   "square", "diamond", "up",
                                                        "pentagon", "down",   "bar",     "plus"};
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return {"", "", kColours[hash % kColours.size()], kMarkers[(hash / 16) % kMarkers.size()]};
}

std::string NameOf(const Value& mixer) {
  const Value* name = mixer.Find("name");
  return name && name->is_string() ? MixerText(mixer) : "";
}

// The mixers of a hybrid's layers, each once, in order.
std::vector<std::string> PartsOf(const Value& mixer) {
  std::vector<std::string> parts;
  for (const char* list : {"pattern", "branches", "mixers"}) {
    const Value* items = mixer.Find(list);
    if (!items || !items->is_array()) continue;
    for (const Value& item : items->as_array()) {
      const std::string name = NameOf(item);
      if (!name.empty() && std::find(parts.begin(), parts.end(), name) == parts.end()) {
        parts.push_back(name);
      }
    }
  }
  return parts;
}

// A short convolution in front is a helper; of several others the last names the hybrid's hue.
std::string MainPart(const std::vector<std::string>& parts) {
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (*part != "base_conv") return *part;
  }
  return parts.back();
}

}  // namespace

std::string MixerLabel(const std::string& name) {
  const Known* known = Find(name);
  return known ? std::string(known->label) : name;
}

MixerStyle StyleOf(const std::string& named, const Value& model) {
  static const Value kNoMixerConfig;
  const Value* found = model.Find("sequence_mixer");
  const Value& mixer = found ? *found : kNoMixerConfig;
  const std::string name = NameOf(mixer);
  const std::vector<std::string> parts = PartsOf(mixer);
  MixerStyle style{.key = named, .label = named, .family = "", .colour = "", .marker = ""};
  const std::string main = parts.empty() ? (name.empty() ? named : name) : MainPart(parts);
  const Known* known = Find(main);
  const Known look = known ? *known : Unknown(main);
  style.family = known ? FamilyOf(*known) : "Other mixers";
  style.colour = look.colour;
  style.marker = look.marker;
  style.is_hybrid = parts.size() > 1;
  const std::string first = named.substr(0, named.find_first_of(",+"));
  if (parts.empty()) {
    if (first == name || name.empty()) style.label = MixerLabel(first);
  } else if (first == parts.front() || first == name) {
    style.label.clear();
    for (const std::string& part : parts) {
      const std::string label = part == "base_conv" && parts.size() > 1 ? "Conv" : MixerLabel(part);
      style.label += (style.label.empty() ? "" : " + ") + label;
    }
  }
  return style;
}

}  // namespace mixerbench::reports
