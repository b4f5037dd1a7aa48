// fuzz_replay FOLDER: the corpus as an ordinary test. Runs a fuzz target once on every file of
// FOLDER/accepted, all of which it must accept, and of FOLDER/refused, all of which it must refuse.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace {

// Whether the target accepts the file.
bool Replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)),
                                std::istreambuf_iterator<char>());
  mixerbench::fuzz::has_accepted = false;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  return mixerbench::fuzz::has_accepted;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  bool passed = true;
  for (const bool accepted : {true, false}) {
    const auto folder = std::filesystem::path(argv[1]) / (accepted ? "accepted" : "refused");
    int num_inputs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      ++num_inputs;
      if (Replay(entry.path()) == accepted) continue;
      std::printf("%s: %s\n", entry.path().c_str(), accepted ? "was refused" : "was accepted");
      passed = false;
    }
    std::printf("%d inputs %s\n", num_inputs, folder.c_str());
    passed = passed && num_inputs > 0;
  }
  return passed ? 0 : 1;
}
