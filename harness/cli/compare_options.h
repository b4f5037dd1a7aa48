// What `compare` was asked. No torch here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/options.h"

namespace mixerbench::harness {

struct CompareOptions {
  std::string base, candidate;   // run folders or report files
  std::string gate = "nightly";  // a preset or a file
  std::vector<std::pair<std::string, std::string>> set;
  bool allow_missing = false;
  std::vector<std::string> fail_on;  // "missing", "empty", "inconclusive"
  bool fail_on_is_given = false;

  bool all_rows = false;
  VerdictOutputs outputs;                // JSON in place of the table
  std::string json_file, markdown_file;  // "": none

  // Builds to start: what stands in for BASE and NEW.
  std::string base_program, candidate_program;
  std::string measure;      // suite whose speed curves both builds measure in turn
  std::string pairs;        // folder of these measurements
  bool self = false;        // A/A: calibrate the runner
  bool top_up = false;      // more seeds for both while a headline is open
  std::string calibration;  // folder
  std::string device = "auto";
};

}  // namespace mixerbench::harness
