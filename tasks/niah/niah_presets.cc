// SPDX-License-Identifier: Apache-2.0
#include "tasks/niah/niah_presets.h"

#include <string>
#include <string_view>
#include <utility>

#include "tasks/niah/niah.h"
#include "tasks/text/text_presets.h"

namespace mixerbench::tasks::niah {
namespace {

struct Variant {
  std::string name;
  Object params;
};

// RULER's variants with SILA's NIAH-Word; essays are the shipped text here.
const std::vector<Variant>& Variants() {
  static const std::vector<Variant> variants = {
      {"niah_single_1", {{"type_haystack", "noise"}}},
      {"niah_single_2", {}},
      {"niah_single_3", {{"type_needle_v", "uuids"}}},
      {"niah_multikey_1", {{"num_needle_k", 4}}},
      {"niah_multikey_2", {{"type_haystack", "needle"}}},
      {"niah_multikey_3",
       {{"type_haystack", "needle"}, {"type_needle_k", "uuids"}, {"type_needle_v", "uuids"}}},
      {"niah_multivalue", {{"num_needle_v", 4}}},
      {"niah_multiquery", {{"num_needle_k", 4}, {"num_needle_q", 4}}},
      {"niah_word", {{"type_needle_v", "words"}}}};
  return variants;
}

Object ParamsOf(std::string_view variant) {
  for (const Variant& candidate : Variants()) {
    if (candidate.name == variant) return candidate.params;
  }
  return {};
}

// A variant at several lengths with further options.
Preset AtLengths(std::string name, std::string_view variant, const Object& options,
                 const std::vector<std::int64_t>& lengths, std::int64_t num_test,
                 std::string reproduces) {
  std::vector<Value> points;
  for (const std::int64_t length : lengths) {
    Object params = ParamsOf(variant);
    for (const auto& [key, value] : options) params[key] = value;
    params["input_seq_len"] = length;
    NiahParams point = NiahFields().Parse(params, "");
    // A protocol fixes the order of sentences for all its variants; lines have none.
    if (!IsRunningText(point.type_haystack)) point.haystack_mode = NiahParams().haystack_mode;
    points.push_back(NiahFields().Write(point));
  }
  return TextPreset(std::move(name), points, num_test, std::move(reproduces));
}

}  // namespace

std::vector<Preset> Presets() {
  constexpr std::int64_t k = 1024;
  const Object original_fixed = {{"haystack_mode", "fixed"}};
  const Object none = {{"inst", "none"}};
  const Object strong = {{"inst", "strong"}};
  std::vector<Preset> presets;
  for (const Variant& variant : Variants()) {
    presets.push_back(
        AtLengths(variant.name, variant.name, {}, {4 * k}, 500, "RULER variant (SILA for words)"));
  }
  for (const int number : {1, 2, 3}) {
    const std::string digit = std::to_string(number);
    presets.push_back(AtLengths("niah/s" + digit, "niah_single_" + digit, original_fixed,
                                {k, 2 * k, 4 * k, 8 * k, 16 * k, 32 * k, 64 * k}, 500,
                                "Raven Tab 2 and 4, SSE Tab 2, RULER"));
  }
  for (const auto& [name, inst] : {std::pair{"none", none}, std::pair{"strong", strong}}) {
    const std::string suffix = std::string("/") + name;
    presets.push_back(AtLengths("niah/sila-fig1a" + suffix, "niah_single_2", inst,
                                {k, 2 * k, 4 * k, 8 * k}, 500, "SILA Fig 1a"));
    presets.push_back(
        AtLengths("niah/sila-tab4" + suffix, "niah_word", inst, {2 * k, 4 * k}, 500, "SILA Tab 4"));
  }
  for (const std::string mode : {"fixed_perm", "shuffle_sentence"}) {
    presets.push_back(AtLengths(
        "niah/sila-fig1b/" + mode, "niah_single_2", {{"inst", "strong"}, {"haystack_mode", mode}},
        {k, 2 * k, 4 * k, 8 * k}, 500, "SILA Fig 1b; repeat over seeds and haystack_seed"));
  }
  for (const std::string variant : {"niah_single_2", "niah_word"}) {
    presets.push_back(
        AtLengths("niah/sila-tab1/" + variant, variant, none, {k, 2 * k}, 500, "SILA Tab 1"));
  }
  presets.push_back(AtLengths("niah/sila-tab2/niah_single_1", "niah_single_1", strong,
                              {8 * k, 16 * k, 24 * k, 32 * k}, 500, "SILA Tab 2"));
  presets.push_back(AtLengths("niah/sila-tab2/niah_single_2", "niah_single_2", strong,
                              {2 * k, 4 * k, 8 * k}, 500, "SILA Tab 2"));
  presets.push_back(AtLengths("niah/sila-tab2/niah_word", "niah_word", strong, {k, 2 * k, 4 * k},
                              500, "SILA Tab 2"));
  for (const std::string variant :
       {"niah_single_1", "niah_single_2", "niah_single_3", "niah_multivalue"}) {
    presets.push_back(AtLengths("niah/resona/" + variant, variant, original_fixed,
                                {4 * k, 8 * k, 16 * k}, 100, "RESONA Tab 9"));
  }
  for (const std::string variant : {"niah_single_1", "niah_single_2", "niah_single_3",
                                    "niah_multikey_1", "niah_multiquery", "niah_multivalue"}) {
    presets.push_back(AtLengths("niah/sse-long/" + variant, variant, original_fixed,
                                {8 * k, 16 * k, 32 * k}, 500, "SSE Tab 10"));
  }
  for (const Variant& variant : Variants()) {
    if (variant.name == "niah_word") continue;
    presets.push_back(AtLengths("ruler/11/" + variant.name, variant.name, original_fixed,
                                RulerLengths(), 500, "RULER without QA"));
  }
  return presets;
}

}  // namespace mixerbench::tasks::niah
