// The parts of a command line that have a form of their own. Errors: ConfigError naming the flag.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/run/options.h"
#include "io/value_path.h"

namespace mixerbench::harness::cli {

// "a.b=1" pairs as the user gave them.
io::Settings ParseSettings(const std::vector<std::string>& texts);

// Digits alone, up to 18 of them.
std::int64_t ParseCount(const std::string& text, const std::string& where);

// Digits alone, up to 2^64-1.
std::uint64_t ParseUnsigned(const std::string& text, const std::string& where);

// "5": seeds 0..4. "1,2,7" or "7,": those. Refuses repetitions, and numbers of seeds that are more
// likely a seed.
std::vector<std::uint64_t> ParseSeeds(const std::string& text);

// --fail-on "a,b": names out of `known`, of the ends that a command fails for; none for "".
std::vector<std::string> ParseFailOn(const std::string& text,
                                     const std::vector<std::string>& known);

// "90", "1.5", "20m" or "1h30m" (d, h, m, s): seconds, from 0 to 100 years, a bound below which
// clocks count in nanoseconds. Nothing for any other text.
std::optional<double> ParseSeconds(const std::string& text);

// "2/8", or "slurm" for the place of this task in its job array.
Shard ParseShard(const std::string& text);

}  // namespace mixerbench::harness::cli
