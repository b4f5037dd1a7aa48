// SPDX-License-Identifier: Apache-2.0
#include "tasks/golden.h"

#include <fstream>
#include <sstream>

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("the samples of every preset are those of tests/golden/tasks.sha256") {
  std::ifstream file("tests/golden/tasks.sha256");
  REQUIRE(file.is_open());
  std::stringstream text;
  text << file.rdbuf();
  TaskRegistry registry("task");
  RegisterTasks(registry);
  const std::string hashes =
      GoldenHashes(registry, [](std::string_view, const Task& task, const BatchRequest& request,
                                std::span<std::int32_t> inputs, std::span<std::int32_t> labels) {
        GenerateOnCpu(task, request, inputs, labels, 2);
      });
  CHECK(Lines(hashes) == Lines(text.str()));
}

}  // namespace
}  // namespace mixerbench::tasks
