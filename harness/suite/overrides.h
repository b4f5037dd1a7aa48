// What a command line may change of a suite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/value_path.h"

namespace mixerbench::harness {

// What the command line may change of a suite: everything else is in the file.
struct SuiteOverrides {
  bool smoke = false;  // the reduced form that the suite has of itself, before all else
  io::Settings set = {};
  std::vector<std::string> add_mixers = {};  // JSON or names; see add_mixer.h
  std::vector<std::uint64_t> seeds = {};     // --seeds, empty: the file's
  std::int64_t limit = 0;           // at most so many examples per evaluation segment; 0: all
  std::string device_type = "cpu";  // "cpu" or "cuda": part of the numerics, so of the run id
};

}  // namespace mixerbench::harness
