// Prints tests/golden/tasks.sha256:
//   bazel run //tasks:golden_hashes > tests/golden/tasks.sha256
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>

#include "tasks/golden.h"

int main() {
  using namespace mixerbench::tasks;
  TaskRegistry registry("task");
  RegisterTasks(registry);
  const std::string lines =
      GoldenHashes(registry, [](std::string_view, const Task& task, const BatchRequest& request,
                                std::span<std::int32_t> inputs, std::span<std::int32_t> labels) {
        GenerateOnCpu(task, request, inputs, labels);
      });
  return std::fputs(lines.c_str(), stdout) < 0 ? 1 : 0;
}
