// Which published number is of a setting of ours, and what is different about it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/published/published.h"

namespace mixerbench::reports {

// A number of tokens or the like as papers write it: "8k" and "8K" are 8192.
std::optional<double> PublishedNumber(std::string_view text);

// How many parameters a model has, as papers write it: "1.3B", "21K" are 1.3e9 and 21,000.
std::optional<double> NumParameters(std::string_view text);

// Whether a published result is of the mixer of this config: the same by OurMixerName, with the
// same positions and kernel where the paper tells them apart.
bool SameMixer(const PublishedResult& result, const Value& config);

// Whether it is of this setting: the same mixer and task, and every size that names the setting in
// the paper (length, pairs, width) equal to ours, of the segment `axes`.
bool Corresponds(const PublishedResult& result, const Value& config, const Object& axes);

// What a paper states that is not so in ours, in words.
struct Contrasts {
  std::vector<std::string> ours, theirs;  // pairs: "2 layers" and "4 layers"
  std::vector<std::string> stated;        // by the paper, without a counterpart: "gumbel_noise"
  std::vector<std::string> clauses;       // anything else

  void Differ(std::string our_words, std::string their_words) {
    ours.push_back(std::move(our_words));
    theirs.push_back(std::move(their_words));
  }
};

// Of a model of so many parameters.
Contrasts ContrastsOf(const PublishedResult& result, const Value& config, const Object& axes,
                      std::int64_t num_parameters);

// Of numbers of parameters, which papers round: less than a tenth apart.
bool SameModelSize(double ours, double theirs);

// A param that tells a model's size.
bool IsModelSize(std::string_view param);

// "Ours has 2 layers, the paper 4 layers; the paper also states K 32."; empty without any.
std::string SentenceOf(const Contrasts& contrasts);

// The sentence of an accuracy. Ours was chosen among `num_rates` learning rates.
std::string Differences(const PublishedResult& result, const Value& config, const Object& axes,
                        std::int64_t num_parameters, std::int64_t num_rates);

// "MQAR, d_model 64, kv_pairs 4": the task and the sizes that name the setting, as in the paper.
std::string SettingText(const PublishedResult& result);

}  // namespace mixerbench::reports
