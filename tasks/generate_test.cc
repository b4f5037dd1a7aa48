// SPDX-License-Identifier: Apache-2.0
#include "tasks/generate.h"

#include <utility>
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

TEST_CASE("batches of an order that is listed beforehand are the same") {
  TaskRegistry registry("task");
  RegisterTasks(registry);
  const auto task = registry.Find("mqar", "").create(Object{}, "");
  const SampleOrder order{.size = 10, .key = DeriveKey("order", 1, 0), .epoch = 2};
  BatchRequest request{
      .key = DeriveKey(task->canon(), 1, 0), .first = 4, .count = 6, .order = order};
  const Batch expected = MakeBatch(*task, request, 1);
  std::vector<std::uint64_t> list;
  for (std::uint64_t position = 0; position < order.size; ++position) {
    list.push_back(SampleAt(order, position));
  }
  request.order.list = list.data();
  CHECK(MakeBatch(*task, request, 1) == expected);
  std::swap(list[4], list[5]);
  CHECK_FALSE(MakeBatch(*task, request, 1) == expected);
}

TEST_CASE("more threads than samples, and no samples at all, are fine") {
  TaskRegistry registry("task");
  RegisterTasks(registry);
  const auto task = registry.Find("mqar", "").create(Object{}, "");
  CHECK(MakeBatch(*task, {.count = 2}, 8) == MakeBatch(*task, {.count = 2}, 1));
  CHECK(MakeBatch(*task, {.count = 0}, 8).inputs.empty());
}

TEST_CASE("launch shapes: a warp for every 128 tokens, several short samples in a block") {
  const auto tiny = ChooseGeneratorShape(2, 10, 1000).value();
  CHECK(tiny.threads_per_sample == 32);
  CHECK(tiny.samples_per_block == 4);
  CHECK(tiny.num_blocks == 250);
  CHECK(tiny.staged_words == 8);
  CHECK(tiny.words_per_sample == 2 * 8 + 12);
  CHECK(ChooseGeneratorShape(128, 0, 1)->threads_per_sample == 32);
  CHECK(ChooseGeneratorShape(129, 0, 1)->threads_per_sample == 64);
  CHECK(ChooseGeneratorShape(129, 0, 1)->samples_per_block == 2);
  const auto huge = ChooseGeneratorShape(1 << 24, 10, std::int64_t{1} << 40).value();
  CHECK(huge.threads_per_sample == 256);
  CHECK(huge.samples_per_block == 1);
  CHECK(huge.num_blocks == 65536);
}

TEST_CASE("launch shapes: long samples are not staged, large ones do not share a block") {
  CHECK(ChooseGeneratorShape(2048, 0, 1)->staged_words == 2052);
  CHECK(ChooseGeneratorShape(2049, 0, 1)->staged_words == 0);
  CHECK(ChooseGeneratorShape(64, 2900, 8)->samples_per_block == 4);
  CHECK(ChooseGeneratorShape(64, 3000, 8)->samples_per_block == 1);
}

TEST_CASE("launch shapes: other numbers of threads are taken or refused") {
  for (const int threads : {32, 64, 96, 128, 160, 192, 224, 256}) {
    const auto shape = ChooseGeneratorShape(64, 10, 100, threads).value();
    CHECK(shape.threads_per_sample == static_cast<std::uint32_t>(threads));
    CHECK(shape.samples_per_block * shape.threads_per_sample <= 256);
    CHECK(shape.samples_per_block * shape.num_blocks >= 100);
  }
  for (const int threads : {-32, 1, 48, 288}) {
    CHECK_FALSE(ChooseGeneratorShape(64, 10, 100, threads));
  }
  CHECK_FALSE(ChooseGeneratorShape(64, std::int64_t{1} << 60, 1));
}

}  // namespace
}  // namespace mixerbench::tasks
