// SPDX-License-Identifier: Apache-2.0
#include "tasks/continuous_mqar/continuous_mqar.h"

#include <map>
#include <set>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::continuous_mqar {
namespace {

using Params = ContinuousMqarParams;

constexpr Params kSmall{.num_embeddings = 20, .num_kv_pairs = 4, .num_passes = 2};
constexpr Params kShared{.num_embeddings = 20, .num_kv_pairs = 4, .per_sequence_mapping = false};

std::string Rejected(const Params& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

// The two samples come from tests/golden/derive/recall.py.

TEST_CASE("continuous mqar: derived sample") {
  const auto task = MakeContinuousMqar(kSmall);
  REQUIRE(task->canon() == "continuous_mqar;N=20;kv=4;passes=2;per_sequence_mapping=1");
  const Sample sample = MakeSample(*task, 1, 0, 0);
  CHECK(TokensText(sample.inputs) == "8 15 9 17 3 12 6 18 8 15 6 18 3 12 9 17 3 20 6 20 9 20 8 20");
  CHECK(LabelsText(sample) == "17:12 19:18 21:17 23:15");
}

TEST_CASE("continuous mqar: derived sample with shared pairs") {
  const Sample sample = MakeSample(*MakeContinuousMqar(kShared), 1, 0, 0);
  CHECK(TokensText(sample.inputs) == "1 16 7 19 4 18 8 10 1 20 4 20 8 20 7 20");
  CHECK(LabelsText(sample) == "9:16 11:18 13:10 15:19");
}

TEST_CASE("continuous mqar: shared pairs persist over samples, splits and seeds") {
  const auto task = MakeContinuousMqar(kShared);
  std::map<std::int32_t, std::set<std::int32_t>> values_of;
  for (const std::uint64_t seed : {1, 2}) {
    for (const std::uint64_t split : {0, 2}) {
      for (std::uint64_t index = 0; index < 10; ++index) {
        const Sample sample = MakeSample(*task, seed, split, index);
        for (std::size_t t = 0; t < 8; t += 2) {
          values_of[sample.inputs[t]].insert(sample.inputs[t + 1]);
        }
      }
    }
  }
  CHECK(values_of.size() == 4);
  for (const auto& [key, values] : values_of) CHECK(values.size() == 1);
}

TEST_CASE("continuous mqar: another map seed shares other pairs") {
  Params params = kShared;
  params.map_seed = 1;
  CHECK(MakeSample(*MakeContinuousMqar(params), 1, 0, 0) !=
        MakeSample(*MakeContinuousMqar(kShared), 1, 0, 0));
}

TEST_CASE("continuous mqar: every pass shows every pair, in orders of their own") {
  const auto task = MakeContinuousMqar({.num_embeddings = 64, .num_kv_pairs = 16, .num_passes = 3});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  const auto pass = [&](std::ptrdiff_t p) {
    return std::vector<std::int32_t>(sample.inputs.begin() + 32 * p,
                                     sample.inputs.begin() + 32 * (p + 1));
  };
  const auto pairs = [&](std::ptrdiff_t p) {
    std::set<std::pair<std::int32_t, std::int32_t>> found;
    const auto tokens = pass(p);
    for (std::size_t t = 0; t < 32; t += 2) found.insert({tokens[t], tokens[t + 1]});
    return found;
  };
  CHECK(pairs(0).size() == 16);
  CHECK(pairs(1) == pairs(0));
  CHECK(pairs(2) == pairs(0));
  CHECK(pass(1) != pass(0));
  CHECK(pass(2) != pass(1));
}

TEST_CASE("continuous mqar: keys, values and the zero vector have ids of their own") {
  const auto task = MakeContinuousMqar({.num_embeddings = 21, .num_kv_pairs = 10});
  CHECK(task->shape().vocab_size == 22);
  const Sample sample = MakeSample(*task, 1, 0, 0);
  for (std::size_t t = 0; t < 40; t += 2) {
    CHECK(sample.inputs[t] < 10);
    CHECK(sample.inputs[t + 1] >= 10);
    CHECK((sample.inputs[t + 1] == 21) == (t >= 20));
  }
}

TEST_CASE("continuous mqar: slices of the small sample") {
  const auto task = MakeContinuousMqar(kSmall);
  const Sample sample = MakeSample(*task, 1, 0, 0);
  std::vector<std::int32_t> buckets(8, -9);
  task->AssignSlices(sample.inputs, sample.labels, buckets);
  // Queries at vectors 8 to 11; their pairs were last shown at 6, 5, 7 and 4.
  CHECK(buckets == std::vector<std::int32_t>{0, 1, 1, 2, 1, 1, 1, 2});
}

TEST_CASE("continuous mqar: only the values of shared pairs are left to guess from") {
  CHECK(MakeContinuousMqar(kSmall)->baselines().front().accuracy == 0.1);
  CHECK(MakeContinuousMqar(kShared)->baselines().front().accuracy == 0.25);
}

TEST_CASE("continuous mqar: any number of lanes makes the same sample") {
  CHECK(LanesAgree<ContinuousMqarSampler>(*MakeContinuousMqar({})));
  CHECK(LanesAgree<ContinuousMqarSampler>(*MakeContinuousMqar(kSmall)));
  CHECK(LanesAgree<ContinuousMqarSampler>(*MakeContinuousMqar(kShared)));
}

TEST_CASE("continuous mqar: each rule is rejected with its own message") {
  const std::string task = "/task: continuous_mqar: ";
  CHECK(Rejected({.num_embeddings = 1}) ==
        task + "num_embeddings must be in [2, 16777215] (num_embeddings=1)");
  CHECK(Rejected({.num_embeddings = 1 << 24}) ==
        task + "num_embeddings must be in [2, 16777215] (num_embeddings=16777216)");
  CHECK(Rejected({.num_kv_pairs = 0}) == task + "num_kv_pairs must be >= 1 (num_kv_pairs=0)");
  CHECK(Rejected({.num_passes = 0}) == task + "num_passes must be in [1, 24576] (num_passes=0)");
  CHECK(Rejected({.num_passes = 24577}) ==
        task + "num_passes must be in [1, 24576] (num_passes=24577)");
  CHECK(Rejected({.num_embeddings = 15}) ==
        task + "num_kv_pairs must be <= num_embeddings/2 (num_kv_pairs=8, num_embeddings=15)");
  CHECK(Rejected({.num_embeddings = 16}) == "");
  CHECK(Rejected({.num_kv_pairs = 4096, .num_passes = 2048}) ==
        task +
            "2*(num_passes+1)*num_kv_pairs must be in [2, 16777216] (num_passes=2048, "
            "num_kv_pairs=4096)");
  CHECK(Rejected({.map_seed = -1}) == task + "map_seed must be >= 0 (map_seed=-1)");
  CHECK(Rejected({.map_seed = 1}) ==
        task + "map_seed acts only with per_sequence_mapping false (map_seed=1)");
}

}  // namespace
}  // namespace mixerbench::tasks::continuous_mqar
