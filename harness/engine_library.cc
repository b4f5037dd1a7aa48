// The engine as a library of a Python program (python/mixerbench/host.py).
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "harness/cli/standard_output.h"
#include "harness/engine.h"

// `worker_command` ends with a null pointer, as `argv` does.
extern "C" int mixerbench_main(int argc, char** argv, const char* const* worker_command) {
  std::vector<std::string> words;
  for (; *worker_command != nullptr; ++worker_command) words.emplace_back(*worker_command);
  mixerbench::harness::cli::PrepareDescriptors();
  return mixerbench::harness::EngineMain(argc, argv, words,
                                         mixerbench::harness::cli::KeepAnswersApart());
}
