// What papers report, as data of the program: quoted, never mixed into ours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"

namespace mixerbench::reports {

struct PublishedResult {
  std::string source;  // "DeltaNet (Yang et al. 2024, arXiv 2406.06484)"
  std::string table;   // "Table 2"
  std::string task;    // as the paper calls it
  std::string mixer;
  std::string metric;
  std::string unit;             // "percent", "fraction", "ms", ...
  std::optional<double> value;  // absent: a figure without numbers, or not legible
  Object params;                // the paper's settings, by its names
  std::string note;             // how the number was read
};

// All of published_results.json, read once.
const std::vector<PublishedResult>& PublishedResults();

// Parses the form of that file. Throws Error(kBadInput). Exposed for its test.
std::vector<PublishedResult> ParsePublished(std::string_view text);

// A share of 0 to 1 of an accuracy; nothing for other units and absent values.
std::optional<double> PublishedShare(const PublishedResult& result);

// A mixer's name in papers as ours: "Gated DeltaNet" and "GDN" are "gated_delta_net". Wrapped ones
// are "mamba + resona", "h3 + resona layer 2", "s5 + selectlti". Empty for variants that this
// program does not have under one name.
std::string OurMixerName(std::string_view published);

// The same where the paper names the block around the system: S6 in the architecture of Mamba is
// "mamba", S4 in that of H3 "h3".
std::string OurMixerName(const PublishedResult& result);

// A task's name in papers as ours; empty when there is none.
std::string OurTaskName(std::string_view published);

}  // namespace mixerbench::reports
