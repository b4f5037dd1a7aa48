// What the commands on samples are asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/value_path.h"

namespace mixerbench::harness {

// Which samples: of `generate` and `export`.
struct DatasetOptions {
  std::string what = {};  // a task or a preset
  io::Settings set = {};  // options of the task
  std::string split = "train";
  std::optional<std::uint64_t> seed = {};  // none: the preset's, else 0
  std::uint64_t start = 0;
  std::int64_t count = 0;   // 0: the preset's number, 1 for a task
  std::string labels = {};  // which positions; "": of a preset's training split what it is
                            // trained on, else "scored"
};

struct GenerateOptions {
  DatasetOptions samples;
  std::string format;  // jsonl, npy, safetensors; "": by the name of `out`, else jsonl
  std::string dtype = "int32";
  std::string out;  // file; "": stdout (jsonl only)
  std::int64_t shards = 1;
  std::string device = "cpu";
};

struct ExportOptions {
  DatasetOptions samples = {.split = "test"};
  std::string out;  // file; "": stdout
  std::int64_t shards = 1;
};

struct VerifyOptions {
  std::string what;  // a manifest, a file beside one, a task or a preset
  io::Settings set;  // options of the task
  std::optional<std::uint64_t> seed = {};
  std::int64_t count = 0;    // samples of each data set; 0: at most 10,000
  std::int64_t threads = 0;  // 0: one per core
  bool json = false;
};

// `score`. Several files of predictions are runs; each has references of its own or all have the
// same.
struct ScoreOptions {
  std::vector<std::string> predictions;
  std::vector<std::string> references;
  std::vector<std::string> against;  // predictions of another variant, in pairs with these
  std::string by;                    // member of "meta" to group samples by; "": none
  bool allow_missing = false;        // a sample without a prediction counts as wrong
  bool json = false;
};

}  // namespace mixerbench::harness
