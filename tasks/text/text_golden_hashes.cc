// Prints tests/golden/text.sha256:
//   bazel run //tasks/text:text_golden_hashes > tests/golden/text.sha256
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tasks/text/text_golden.h"

int main() {
  mixerbench::tasks::TaskRegistry registry("task");
  mixerbench::tasks::RegisterTasks(registry);
  const std::string lines = mixerbench::tasks::TextGoldenHashes(registry);
  return std::fputs(lines.c_str(), stdout) < 0 ? 1 : 0;
}
