// What `mixer run`, `core run` and `mixer check` are asked for. No torch here: the front program
// parses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/value_path.h"

namespace mixerbench::harness {

// `mixer run` and `core run`.
struct UnitRunOptions {
  std::string name;
  std::string in;
  std::string out;
  io::Settings set = {};
  std::string path = "fast";
  std::string dtype = "fp32";
  std::string device = "cpu";
  std::int64_t seed = -1;  // >= 0: draw missing parameters from this seed
  bool gradients = false;
  bool final_state = false;
  bool describe = false;
};

// `mixer check`.
struct MixerCheckOptions {
  std::string name;  // or FILE.py:Class
  io::Settings set = {};
  std::string dtype = "fp64";
  std::string device = "cpu";
  std::vector<std::string> skip = {};  // names of checks
  double check_timeout_s = 120;
  bool json = false;
};

}  // namespace mixerbench::harness
