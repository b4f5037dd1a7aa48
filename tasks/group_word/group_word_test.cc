// SPDX-License-Identifier: Apache-2.0
#include "tasks/group_word/group_word.h"

#include <algorithm>
#include <numeric>

#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::group_word {
namespace {

std::string Rejected(const GroupWordParams& params) {
  return Rejection([&] { Validate(params, "/task"); });
}

Sample First(const std::string& group) { return MakeSample(*MakeGroupWord({group, 12}), 1, 0, 0); }

TEST_CASE("group_word: golden sample of S5") {
  const auto task = MakeGroupWord({"S5", 12});
  REQUIRE(task->canon() == "group_word;L=12;group=S5");
  const Sample sample = First("S5");
  CHECK(TokensText(sample.inputs) == "117 84 12 111 69 17 83 100 102 105 54 51");
  CHECK(LabelsText(sample) ==
        "0:117 1:104 2:116 3:15 4:62 5:112 6:21 7:113 8:74 9:95 10:90 11:104");
  CHECK(InputsSha256(sample) == "a46705afe45d6894861fbbb69565cab178baeef9bbdd78e8fde4e106eb1b711e");
}

TEST_CASE("group_word: golden sample of A5") {
  const Sample sample = First("A5");
  CHECK(TokensText(sample.inputs) == "20 46 41 44 34 41 33 10 3 20 43 32");
  CHECK(LabelsText(sample) == "0:20 1:54 2:35 3:48 4:44 5:10 6:27 7:33 8:18 9:43 10:0 11:32");
  CHECK(InputsSha256(sample) == "90bc6aa96c82508c486d30fec755230249558bd50888a54214149eed11921f26");
}

// From tests/golden/derive/state_tracking.py, which multiplies lists of images.
TEST_CASE("group_word: golden samples of a cyclic group, of products and of the largest S_n") {
  struct Golden {
    std::string group, inputs, labels;
  };
  const std::vector<Golden> cases = {
      {"Z60", "24 46 22 12 26 58 21 13 0 15 49 1",
       "0:24 1:10 2:32 3:44 4:10 5:8 6:29 7:42 8:42 9:57 10:46 11:47"},
      {"A4xZ5", "52 11 49 27 30 57 28 2 39 40 57 48",
       "0:52 1:43 2:37 3:44 4:29 5:31 6:39 7:36 8:50 9:25 10:32 11:40"},
      {"S3xZ2xA3", "16 3 30 16 6 33 11 22 28 18 9 35",
       "0:16 1:13 2:19 3:11 4:5 5:32 6:22 7:26 8:21 9:27 10:12 11:23"},
      {"S7", "4242 2283 3226 1183 1628 5010 499 3031 2664 3985 981 1025",
       "0:4242 1:4846 2:2688 3:2026 4:2954 5:623 6:327 7:3339 8:1542 9:1274 10:2722 11:3948"}};
  for (const Golden& golden : cases) {
    const Sample sample = First(golden.group);
    CHECK(TokensText(sample.inputs) == golden.inputs);
    CHECK(LabelsText(sample) == golden.labels);
  }
}

TEST_CASE("group_word: ids and elements correspond, and products are associative") {
  for (const std::string name : {"S1xZ2", "S2", "S4", "A4", "A6", "S7", "A7", "Z9", "S3xA4xZ5"}) {
    CAPTURE(name);
    const GroupTables tables = ParseGroup(name, "");
    const Group& group = tables.group;
    CHECK(group.IdOf(group.Identity(), tables.tables.data()) == 0);
    for (std::uint32_t id = 0; id < group.order(); ++id) {
      const GroupElement element = group.ElementOf(id, tables.tables.data());
      REQUIRE(group.IdOf(element, tables.tables.data()) == id);
    }
    const auto element = [&](std::uint32_t i) {
      return group.ElementOf(i % group.order(), tables.tables.data());
    };
    for (std::uint32_t i = 0; i < 50; ++i) {
      const GroupElement a = element(7 * i + 1), b = element(11 * i + 3), c = element(13 * i + 5);
      const auto left = group.IdOf(group.Then(group.Then(a, b), c), tables.tables.data());
      const auto right = group.IdOf(group.Then(a, group.Then(b, c)), tables.tables.data());
      REQUIRE(left == right);
    }
  }
}

TEST_CASE(
    "group_word: ids of permutations are lexicographic ranks, products apply the first first") {
  const GroupTables s4 = ParseGroup("S4", "");
  std::vector<std::vector<std::uint32_t>> permutations;
  std::vector<std::uint32_t> images = {0, 1, 2, 3};
  do {
    permutations.push_back(images);
  } while (std::next_permutation(images.begin(), images.end()));
  REQUIRE(s4.group.order() == permutations.size());
  for (std::uint32_t p = 0; p < 24; ++p) {
    for (std::uint32_t g = 0; g < 24; ++g) {
      std::vector<std::uint32_t> expected(4);
      for (std::size_t j = 0; j < 4; ++j) expected[j] = permutations[g][permutations[p][j]];
      const auto product = s4.group.Then(s4.group.ElementOf(p, s4.tables.data()),
                                         s4.group.ElementOf(g, s4.tables.data()));
      REQUIRE(permutations[s4.group.IdOf(product, s4.tables.data())] == expected);
    }
  }
}

TEST_CASE("group_word: target_only keeps the last product, all_tokens adds nothing") {
  const auto task = MakeGroupWord({"S5", 12});
  CHECK(LabelsText(MakeSample(*task, 1, 0, 0, LabelMode::kTargetOnly)) == "11:104");
  CHECK(MakeSample(*task, 1, 0, 0, LabelMode::kAllTokens) == First("S5"));
}

TEST_CASE("group_word: slices are the position and whether it is the last") {
  const auto task = MakeGroupWord({"Z2", 5});
  const Sample sample = MakeSample(*task, 1, 0, 0);
  std::vector<std::int32_t> buckets(10, -9);
  task->AssignSlices(sample.inputs, sample.labels, buckets);
  CHECK(buckets == std::vector<std::int32_t>{0, -1, 1, -1, 1, -1, 1, -1, 2, 0});
}

TEST_CASE("group_word: any number of lanes makes the same sample") {
  for (const std::string group : {"S5", "A4xZ5"}) {
    for (const std::int64_t length : {2, 32, 33, 150}) {
      CHECK(LanesAgree<GroupWordSampler>(*MakeGroupWord({group, length})));
    }
  }
}

TEST_CASE("group_word: each rule is rejected with its own message") {
  const std::string task = "/task: group_word: ";
  CHECK(Rejected({"S5", 1}) == task + "input_seq_len must be in [2, 16777216] (input_seq_len=1)");
  for (const std::string group :
       {"", "S", "s5", "S05", "S5x", "xS5", "S5 ", "B3", "Z0", "S-1", "Z99999999999999999999"}) {
    CHECK(Rejected({group, 4}) ==
          task + "group must be one of S<n>, A<n>, Z<n>, products with x (group=" + group + ")");
  }
  CHECK(Rejected({"Z2xZ2xZ2xZ2", 4}) ==
        task + "a product has at most 3 factors (group=Z2xZ2xZ2xZ2)");
  CHECK(Rejected({"S8", 4}) == task + "n must be <= 7 (group=S8)");
  CHECK(Rejected({"Z2xA8", 4}) == task + "n must be <= 7 (group=Z2xA8)");
  const std::string size = "the number of elements must be in [2, 16777216] ";
  CHECK(Rejected({"A2", 4}) == task + size + "(group=A2, elements=1)");
  CHECK(Rejected({"S7xS7", 4}) == task + size + "(group=S7xS7, elements=25401600)");
  CHECK(Rejected({"Z16777217", 4}) == task + size + "(group=Z16777217, elements=16777217)");
  CHECK(Rejected({"Z16777216", 4}) == "");
  CHECK(Rejected({"S7xA6", 2}) == "");
}

}  // namespace
}  // namespace mixerbench::tasks::group_word
