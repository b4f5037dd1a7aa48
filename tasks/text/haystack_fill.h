// How well a haystack fills the contexts that are made of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasks/text/tokenized_units.h"

namespace mixerbench::tasks {

// A context takes whole sentences and ends before the first that does not fit. On average it is
// left short by half of the sentence that its end falls into, which is half of sum(n^2) / sum(n)
// over the sentences' tokens: long sentences meet the end more often than short ones.
double MeanShortfall(const TokenizedUnits& sentences);

// Contexts have room for `room` tokens of haystack. Throws ConfigError at `where` when they would
// on average be left so short that they are not what was asked for.
void CheckFill(const TokenizedUnits& sentences, std::int64_t room, const std::string& where);

// What a user of the contexts should know: that they are left short, or repeat the haystack.
// `name`: of the haystack.
std::vector<std::string> FillWarnings(const TokenizedUnits& sentences, std::int64_t room,
                                      const std::string& name);

}  // namespace mixerbench::tasks
