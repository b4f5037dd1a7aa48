// SPDX-License-Identifier: Apache-2.0
#include "harness/run/merge_plan.h"

#include <string>

#include "base/error.h"
#include "base/sha256.h"
#include "io/json.h"
#include "io/value_path.h"
#include "reports/summary/select.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const Registries& AllRegistries() {
  static const Registries registries;  // const: read-only for every test
  return registries;
}

Suite Parse(const std::vector<std::string>& lrs, std::vector<std::uint64_t> seeds,
            const std::string& name = "s") {
  std::string axis;
  for (const std::string& lr : lrs) axis += (axis.empty() ? "" : ", ") + lr;
  return ParseSuite(R"({"name": ")" + name + R"(", "task": {"name": "mqar", "vocab_size": 128,
      "train": {"input_seq_len": 16, "num_kv_pairs": 2, "num_examples": 64}, "test": {}},
      "model": {"d_model": 16, "sequence_mixer": {"name": "attention"}},
      "sweep": {"grid": {"train.lr": [)" +
                        axis + R"(]}}, "throughput": {"seq_len": [16]}})",
                    {.seeds = std::move(seeds)}, AllRegistries());
}

Plan Merge(const std::optional<Plan>& old, const Suite& suite,
           PlanPolicy policy = PlanPolicy::kRefuse) {
  return MergePlan(old, suite, policy, AllRegistries(), "out");
}

TEST_CASE("plan: a new folder is for what is asked") {
  const Plan plan = Merge(std::nullopt, Parse({"0.1"}, {0, 1}));
  CHECK(plan.name == "s");
  REQUIRE(plan.cells.size() == 3);
  CHECK(plan.cells[0].run_id.starts_with("sha256:"));
}

TEST_CASE("plan: it grows with what is asked and does not shrink") {
  const Plan small = Merge(std::nullopt, Parse({"0.1"}, {0, 1}));
  const Plan large = Merge(small, Parse({"0.1", "0.2"}, {0, 1, 2}));
  CHECK(large.cells.size() == 7);
  CHECK(Merge(large, Parse({"0.1"}, {1})).cells.size() == 7);
  // Speed alone, as `bench` asks for.
  Suite bench = Parse({"0.1"}, {0});
  std::erase_if(bench.cells, [](const Cell& cell) { return cell.kind == CellKind::kTrain; });
  CHECK(Merge(small, bench).cells.size() == 3);
}

TEST_CASE("plan: two plans of which neither holds the other are refused, merged or replaced") {
  const Plan old = Merge(std::nullopt, Parse({"0.1"}, {0, 1}));
  const Suite other = Parse({"0.2"}, {0}, "t");
  CHECK_THROWS_WITH(Merge(old, other),
                    Catch::StartsWith("out: holds the plan of 's', 3 cells of which") &&
                        Catch::Contains("'mqar/attention/lr=0.1 seed 0'") &&
                        Catch::Contains("--plan merge"));
  const Plan merged = Merge(old, other, PlanPolicy::kMerge);
  CHECK(merged.name == "s + t");
  CHECK(merged.cells.size() == 5);
  CHECK(merged.config.Find("merged")->as_array().size() == 2);
  const Plan again = Merge(merged, other, PlanPolicy::kMerge);
  CHECK(again.name == "s + t");
  CHECK(again.cells.size() == 5);
  const Plan replaced = Merge(old, other, PlanPolicy::kReplace);
  CHECK(replaced.name == "t");
  CHECK(replaced.cells.size() == 2);
  // More seeds of one suite need no second name.
  const Plan seeds = Merge(old, Parse({"0.1"}, {2}), PlanPolicy::kMerge);
  CHECK(seeds.name == "s");
  CHECK(seeds.config == old.config);
  CHECK(seeds.cells.size() == 4);
}

// Tested on inputs of this length, and evaluated so.
Suite Tested(int length, const std::string& lr = "0.1", const std::string& sections = "") {
  return ParseSuite(R"({"name": "s", "task": {"name": "mqar", "vocab_size": 128, "num_kv_pairs": 2,
      "train": {"input_seq_len": 16, "num_examples": 64}, "test": {"input_seq_len": )" +
                        std::to_string(length) + R"(}},
      "model": {"d_model": 16, "sequence_mixer": {"name": "attention"}},
      "train": {"lr": )" +
                        lr + R"(}, "throughput": {"seq_len": [16]})" + sections + "}",
                    {}, AllRegistries());
}

TEST_CASE("plan: other tests of the same trainings take the place of those before") {
  const Plan old = Merge(std::nullopt, Tested(16));
  const Plan now = Merge(old, Tested(32));
  REQUIRE(now.cells.size() == 2);
  CHECK(now.cells[0].training_id == old.cells[0].training_id);
  CHECK(now.cells[0].run_id != old.cells[0].run_id);
  CHECK(Merge(old, Tested(32), PlanPolicy::kMerge).cells.size() == 4);
  CHECK_THROWS_WITH(Merge(old, Tested(32, "0.2")), Catch::Contains("--plan merge"));
}

TEST_CASE("plan: what uses a training joins its plan, and gives way to other uses") {
  const Plan old = Merge(std::nullopt, Tested(16));
  const std::string one = R"(, "evaluate": [{"input_seq_len": 24}])";
  const std::string other = R"(, "evaluate": [{"input_seq_len": 40}])";
  const Plan joined = Merge(old, Tested(16, "0.1", one));
  REQUIRE(joined.cells.size() == 3);
  CHECK(joined.cells[0].run_id == old.cells[0].run_id);
  CHECK(Merge(joined, Tested(16)).cells.size() == 3);
  const Plan changed = Merge(joined, Tested(16, "0.1", other));
  CHECK(changed.cells.size() == 3);
  CHECK(changed.cells[1].run_id != joined.cells[1].run_id);
}

// Chooses the rate; `reseed` is a member of `sweep.select`, with a comma in front.
Suite Choosing(const std::string& reseed, std::vector<std::uint64_t> seeds,
               const std::string& name = "s", const std::string& d_model = "16",
               const std::string& over = R"("train.lr")") {
  return ParseSuite(R"({"name": ")" + name + R"(", "task": {"name": "mqar", "vocab_size": 128,
      "train": {"input_seq_len": 16, "num_kv_pairs": 2, "num_examples": 64}, "test": {}},
      "model": {"d_model": )" +
                        d_model + R"(, "sequence_mixer": {"name": "attention"}},
      "sweep": {"grid": {"train.lr": [0.1, 0.2], "train.eps": [1e-8]},
                "select": {"by": "validation.accuracy", "over": [)" +
                        over + "]" + reseed + "}}}",
                    {.seeds = std::move(seeds)}, AllRegistries());
}

std::vector<std::uint64_t> FreshSeeds(const Plan& plan) {
  return reports::SelectRuleOf(plan.config).fresh_seeds;
}

TEST_CASE("plan: a part that reports more fresh seeds makes the plan report them") {
  const std::string three = R"(, "reseed": {"count": 3})";
  const std::string five = R"(, "reseed": {"count": 5})";
  const Plan old = Merge(std::nullopt, Choosing(three, {0, 1, 2}));
  for (const PlanPolicy policy : {PlanPolicy::kRefuse, PlanPolicy::kMerge}) {
    const Plan grown = Merge(old, Choosing(five, {0, 1}), policy);
    CHECK(FreshSeeds(grown).size() == 5);
    CHECK(grown.cells.size() == 6);
    // One that asks for fewer is a part in this too.
    CHECK(FreshSeeds(Merge(grown, Choosing(three, {0}), policy)).size() == 5);
    CHECK(FreshSeeds(Merge(grown, Choosing("", {0}), policy)).size() == 5);
    // A part that chooses otherwise cannot be done in this folder.
    for (const Suite& other : {Choosing(R"(, "reseed": {"count": 3, "base": 70})", {0}),
                               Choosing(three, {0}, "s", "16", R"("train.lr", "train.eps")")}) {
      CHECK_THROWS_WITH(Merge(old, other, policy),
                        Catch::Contains("chooses otherwise") && Catch::Contains("--plan replace"));
    }
  }
  CHECK_THROWS_WITH(
      Merge(Merge(std::nullopt, Parse({"0.1", "0.2", "0.3"}, {0})), Choosing(three, {0})),
      Catch::Contains("chooses otherwise"));
}

TEST_CASE("plan: merged suites that choose alike go on to do so when one reports more") {
  const std::string three = R"(, "reseed": {"count": 3})";
  const std::string five = R"(, "reseed": {"count": 5})";
  const Plan first = Merge(std::nullopt, Choosing(three, {0, 1}));
  const Suite wide = Choosing(three, {0, 1}, "t", "32");
  Plan merged = Merge(first, wide, PlanPolicy::kMerge);
  CHECK(FreshSeeds(merged).size() == 3);
  CHECK(FreshSeeds(Merge(merged, wide)).size() == 3);  // as its own command asks
  // More seeds of each, as a top-up adds them.
  merged = Merge(merged, Choosing(five, {0, 1, 2}), PlanPolicy::kMerge);
  merged = Merge(merged, Choosing(five, {0, 1, 2}, "t", "32"), PlanPolicy::kMerge);
  CHECK(merged.config.Find("merged")->as_array().size() == 2);
  CHECK(FreshSeeds(merged).size() == 5);
  CHECK(merged.cells.size() == 12);
}

TEST_CASE("plan: cells of older code are planned again by this one") {
  Plan old = Merge(std::nullopt, Parse({"0.1"}, {0, 1, 2}));
  const Plan now = old;
  for (auto& cell : old.cells) {
    cell.code_id = "sha256:" + Sha256Hex("older");
    cell.run_id = "sha256:" + Sha256Hex(cell.run_id);
  }
  // Two cells are asked for, the others come along.
  const Plan merged = Merge(old, Parse({"0.1"}, {1}));
  REQUIRE(merged.cells.size() == now.cells.size());
  for (std::size_t i = 0; i < now.cells.size(); ++i) {
    CHECK(merged.cells[i].run_id == now.cells[i].run_id);
    CHECK(merged.cells[i].code_id == now.cells[i].code_id);
    CHECK(merged.cells[i].name == now.cells[i].name);
  }
}

TEST_CASE("plan: a cell that this program does not know is refused, or dropped with its plan") {
  Plan old = Merge(std::nullopt, Parse({"0.1"}, {0}));
  for (auto& cell : old.cells) {
    io::SetPath(cell.config.as_object(), "model.sequence_mixer", Object{{"name", "gone"}}, "");
    cell.run_id = "sha256:" + Sha256Hex(cell.run_id);
  }
  CHECK_THROWS_WITH(Merge(old, Parse({"0.2"}, {0})), Catch::Contains("cannot plan") &&
                                                         Catch::Contains("unknown mixer 'gone'") &&
                                                         Catch::Contains("--plan replace"));
  CHECK(Merge(old, Parse({"0.2"}, {0}), PlanPolicy::kReplace).cells.size() == 2);
}

}  // namespace
}  // namespace mixerbench::harness
