// SPDX-License-Identifier: Apache-2.0
#include "tasks/generate.h"

#include <vector>

#include "tasks/launch_shape.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

struct Batch {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> labels;
  friend bool operator==(const Batch&, const Batch&) = default;
};

Batch MakeBatch(const Task& task, const BatchRequest& request, int num_threads) {
  const auto size = static_cast<std::size_t>(request.count * task.shape().seq_len);
  Batch batch{std::vector<std::int32_t>(size), std::vector<std::int32_t>(size)};
  GenerateOnCpu(task, request, batch.inputs, batch.labels, num_threads);
  return batch;
}

// Samples 0..count-1, generated one by one in the order that `index_of` gives.
template <typename IndexOf>
Batch MakeInOrder(const Task& task, PhiloxKey key, std::int64_t count, const IndexOf& index_of) {
  const auto length = static_cast<std::size_t>(task.shape().seq_len);
  const auto size = static_cast<std::size_t>(count) * length;
  Batch batch{std::vector<std::int32_t>(size), std::vector<std::int32_t>(size)};
  std::vector<std::uint32_t> scratch(static_cast<std::size_t>(task.shape().scratch_words));
  for (std::int64_t step = 0; step < count; ++step) {
    const auto index = static_cast<std::size_t>(index_of(step));
    task.Generate({key, index}, LabelMode::kScored,
                  std::span(batch.inputs).subspan(index * length, length),
                  std::span(batch.labels).subspan(index * length, length), scratch);
  }
  return batch;
}

TEST_CASE("bytes depend neither on the order of samples nor on the number of threads") {
  constexpr std::int64_t kNumSamples = 1000;
  TaskRegistry registry("task");
  RegisterTasks(registry);
  for (const auto& [name, entry] : registry.entries()) {
    for (const Preset& preset : entry.presets) {
      CAPTURE(preset.name);
      const auto task = entry.create(preset.params, "");
      if (task->text() != nullptr) continue;  // text/text_conformance_test.cc
      const PhiloxKey key = DeriveKey(task->canon(), preset.seed, 0);
      const BatchRequest request{.key = key, .count = kNumSamples};
      const Batch expected = MakeBatch(*task, request, 1);
      CHECK(MakeInOrder(*task, key, kNumSamples,
                        [](std::int64_t i) { return kNumSamples - 1 - i; }) == expected);
      CHECK(MakeInOrder(*task, key, kNumSamples, [](std::int64_t i) {
              return Feistel({{1, 2}, 0}, 0, kNumSamples, static_cast<std::uint64_t>(i));
            }) == expected);
      for (int num_threads = 2; num_threads <= 8; ++num_threads) {
        CAPTURE(num_threads);
        CHECK(MakeBatch(*task, request, num_threads) == expected);
      }
    }
  }
}

TEST_CASE("batches of a permuted data set hold the samples that the order names") {
  TaskRegistry registry("task");
  RegisterTasks(registry);
  const auto task = registry.Find("mqar", "").create(Object{}, "");
  const PhiloxKey key = DeriveKey(task->canon(), 1, 0);
  const SampleOrder order{.size = 10, .key = DeriveKey("order", 1, 0)};
  // Positions 8..13 cross from epoch 0 into epoch 1.
  const Batch batch = MakeBatch(*task, {.key = key, .first = 8, .count = 6, .order = order}, 1);
  for (std::uint64_t i = 0; i < 6; ++i) {
    const Batch one =
        MakeBatch(*task, {.key = key, .first = SampleAt(order, 8 + i), .count = 1}, 1);
    const std::vector<std::int32_t> row(
        batch.inputs.begin() + static_cast<std::int64_t>(64 * i),
        batch.inputs.begin() + static_cast<std::int64_t>(64 * (i + 1)));
    CHECK(row == one.inputs);
  }
}

TEST_CASE("more threads than samples, and no samples at all, are fine") {
  TaskRegistry registry("task");
  RegisterTasks(registry);
  const auto task = registry.Find("mqar", "").create(Object{}, "");
  CHECK(MakeBatch(*task, {.count = 2}, 8) == MakeBatch(*task, {.count = 2}, 1));
  CHECK(MakeBatch(*task, {.count = 0}, 8).inputs.empty());
}

TEST_CASE("launch shapes are whole warps within the limits of CUDA") {
  CHECK(GeneratorBlockSize(2) == 32);
  CHECK(GeneratorBlockSize(128) == 32);
  CHECK(GeneratorBlockSize(129) == 64);
  CHECK(GeneratorBlockSize(1 << 24) == 256);
  CHECK(GeneratorGridSize(1) == 1);
  CHECK(GeneratorGridSize(std::int64_t{1} << 40) == 65536);
}

}  // namespace
}  // namespace mixerbench::tasks
