// SPDX-License-Identifier: Apache-2.0
#include "tasks/generate.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "base/check.h"

namespace mixerbench::tasks {

void GenerateOnCpu(const Task& task, const BatchRequest& request, std::span<std::int32_t> inputs,
                   std::span<std::int32_t> labels, int num_threads) {
  const TaskShape shape = task.shape();
  Require(request.count >= 0 && num_threads >= 1, "a batch has a size and a thread");
  Require(std::ssize(inputs) == request.count * shape.seq_len && labels.size() == inputs.size(),
          "inputs and labels hold [count, seq_len]");

  const auto generate = [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint32_t> scratch(static_cast<std::size_t>(shape.scratch_words));
    const auto length = static_cast<std::size_t>(shape.seq_len);
    for (std::int64_t i = begin; i < end; ++i) {
      const auto offset = static_cast<std::size_t>(i) * length;
      task.Generate({request.key, RequestedSample(request, i)}, request.mode,
                    inputs.subspan(offset, length), labels.subspan(offset, length), scratch);
    }
  };
  const std::int64_t num_parts = std::min<std::int64_t>(num_threads, request.count);
  std::vector<std::jthread> threads;
  for (std::int64_t part = 1; part < num_parts; ++part) {
    threads.emplace_back(generate, request.count * part / num_parts,
                         request.count * (part + 1) / num_parts);
  }
  if (num_parts > 0) generate(0, request.count / num_parts);
}

}  // namespace mixerbench::tasks
