// Prints tests/golden/tasks.sha256:
//   bazel run //tasks:golden_hashes > tests/golden/tasks.sha256
// With [THREADS [SHARDS]] the samples are made by so many threads, and in so many pieces, the last
// one first: neither may change a line (tools/hash_matrix.sh).
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <string>

#include "tasks/golden.h"

namespace mixerbench::tasks {
namespace {

int PrintHashes(int num_threads, std::int64_t num_shards) {
  TaskRegistry registry("task");
  RegisterTasks(registry);
  const std::string lines =
      GoldenHashes(registry, [&](std::string_view, const Task& task, const BatchRequest& request,
                                 std::span<std::int32_t> inputs, std::span<std::int32_t> labels) {
        for (std::int64_t shard = num_shards - 1; shard >= 0; --shard) {
          const std::int64_t begin = request.count * shard / num_shards;
          const std::int64_t end = request.count * (shard + 1) / num_shards;
          const auto offset = static_cast<std::size_t>(begin * task.shape().seq_len);
          const auto size = static_cast<std::size_t>((end - begin) * task.shape().seq_len);
          BatchRequest piece = request;
          piece.first += static_cast<std::uint64_t>(begin);
          piece.count = end - begin;
          GenerateOnCpu(task, piece, inputs.subspan(offset, size), labels.subspan(offset, size),
                        num_threads);
        }
      });
  return std::fputs(lines.c_str(), stdout) < 0 ? 1 : 0;
}

}  // namespace
}  // namespace mixerbench::tasks

int main(int argc, char** argv) {
  return mixerbench::tasks::PrintHashes(argc > 1 ? std::stoi(argv[1]) : 1,
                                        argc > 2 ? std::stol(argv[2]) : 1);
}
