// SPDX-License-Identifier: Apache-2.0
#include "harness/dataset/dataset.h"

#include <limits>

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

using tasks::LabelMode;

const tasks::TaskRegistry& Tasks() {
  static const tasks::TaskRegistry registry = AllTasks();  // const: read-only for every test
  return registry;
}

LabelMode LabelsOf(const DatasetOptions& options) {
  return ResolveDataset(options, Tasks()).labels;
}

TEST_CASE("dataset: a preset's training split has the labels that it is trained on") {
  CHECK(LabelsOf({.what = "hint/sila-std", .count = 1}) == LabelMode::kAllTokens);
  CHECK(LabelsOf({.what = "hint/sila-target", .count = 1}) == LabelMode::kTargetOnly);
  for (const char* preset : {"mad/cr/baseline", "mad/nr/frac_noise-0.4", "mad/fr/vocab_size-32"}) {
    INFO(preset);
    CHECK(LabelsOf({.what = preset}) == LabelMode::kAllTokens);
    CHECK(LabelsOf({.what = preset, .labels = "scored"}) == LabelMode::kScored);
    CHECK(LabelsOf({.what = preset, .split = "validation", .count = 1}) == LabelMode::kScored);
    CHECK(LabelsOf({.what = preset, .split = "test"}) == LabelMode::kScored);
    CHECK(LabelsOf({.what = preset, .split = "16", .count = 1}) == LabelMode::kScored);
  }
  CHECK(LabelsOf({.what = "mad/m/baseline"}) == LabelMode::kScored);
  CHECK(LabelsOf({.what = "mqar"}) == LabelMode::kScored);
}

TEST_CASE("dataset: seeds and indices have 64 bits") {
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  CHECK(ResolveDataset({.what = "mqar/tiny"}, Tasks()).seed == 123);
  CHECK(ResolveDataset({.what = "mqar/tiny", .seed = 0}, Tasks()).seed == 0);
  CHECK(ResolveDataset({.what = "mqar", .seed = kMax}, Tasks()).seed == kMax);
  CHECK(ResolveDataset({.what = "mqar", .start = kMax - 4, .count = 5}, Tasks()).parts[0].first ==
        kMax - 4);
  CHECK_THROWS_WITH(ResolveDataset({.what = "mqar", .start = kMax - 4, .count = 6}, Tasks()),
                    Catch::StartsWith("--start: samples are numbered up to 2^64-1"));
}

TEST_CASE("dataset: more samples than a file can hold are refused") {
  const std::int64_t length =
      ResolveDataset({.what = "mqar"}, Tasks()).parts[0].task->shape().seq_len;
  const std::int64_t most = (std::int64_t{1} << 58) / length;
  CHECK(ResolveDataset({.what = "mqar", .count = most}, Tasks()).parts[0].count == most);
  for (const std::int64_t count : {most + 1, std::numeric_limits<std::int64_t>::max()}) {
    CHECK_THROWS_WITH(ResolveDataset({.what = "mqar", .count = count}, Tasks()),
                      Catch::StartsWith("--count: " + std::to_string(count) + " samples of "));
  }
}

TEST_CASE("dataset: a preset is found by its name, with a task's name before it or without") {
  CHECK(ResolveDataset({.what = "ar_single"}, Tasks()).task_name == "mad_icr");
  CHECK_THROWS_WITH(ResolveDataset({.what = "mad/m/baselin"}, Tasks()),
                    Catch::Contains("unknown preset 'mad/m/baselin' (did you mean "
                                    "'mad/m/baseline'?)"));
  CHECK_THROWS_WITH(ResolveDataset({.what = "mquar"}, Tasks()),
                    Catch::Contains("did you mean 'mqar'"));
}

}  // namespace
}  // namespace mixerbench::harness
