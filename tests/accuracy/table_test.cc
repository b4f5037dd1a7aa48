// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/table.h"

#include <cmath>

#include "io/json.h"

#include "tests/support/catch2.h"

namespace mixerbench::accuracy {
namespace {

TEST_CASE("table: few numbers may differ by chance, many may not") {
  CHECK(ChanceFactor(64) == Approx(1.965).epsilon(1e-3));
  CHECK(ChanceFactor(4096) == Approx(1.1).epsilon(0.03));
  CHECK(ChanceFactor(1e9) < 1.01);
  CHECK(ChanceFactor(1) > 1e6);
}

TEST_CASE("table: a declared plan that no case ran shows") {
  TableBuilder builder;
  builder.Add(
      "core a", {},
      {{.precision = Precision::kBf16, .plans = {"a fused/scan, keys padded to 32", "b x/y"}}});
  const Value counts = CountPlans(builder.Build(), {{"a", "scan", "bf16"},
                                                    {"a", "fused", "bf16"},
                                                    {"a", "fused", "fp32"},
                                                    {"b", "fused", "bf16"},
                                                    {"a", "x", "bf16"}});
  std::vector<std::int64_t> num_cases;
  for (const Value& count : counts.as_array()) {
    num_cases.push_back(count.Find("num_cases")->as_int());
  }
  CHECK(num_cases == std::vector<std::int64_t>{1, 1, 0, 0, 0});
}

Comparison OneNumber(double error, double naive_error) {
  return {.name = "d A_log",
          .num_elements = 1,
          .norm = 1,
          .error = error,
          .naive_error = naive_error,
          .largest = 1};
}

TEST_CASE("table: a parameter of one number is judged over all cases together") {
  for (const double factor : {1.0, 3.5}) {
    TableBuilder builder;
    for (int i = 0; i < 200; ++i) {
      builder.Add(
          "mixer m", {},
          {{.precision = Precision::kBf16, .comparisons = {OneNumber(factor * 1e-3, 1e-3)}}});
    }
    const Value table = builder.Build();
    REQUIRE(table.Find("pools")->as_array().size() == 1);
    const Value& pool = table.Find("pools")->as_array().front();
    CHECK(pool.Find("num_elements")->as_double() == Approx(200));
    CHECK((pool.Find("ratio")->as_double() > 1) == (factor > 1));
    CHECK(Passed(table) == (factor == 1));
  }
}

TEST_CASE("table: the table says what failed, what was skipped and what was worst") {
  Comparison large = OneNumber(0.5, 1e-9);
  large.num_elements = 1000;
  large.naive_participants = 1000;
  Comparison infinite = large;
  infinite.error = std::nan("");
  TableBuilder builder;
  const auto outcome = [&](const Accuracy& accuracy) {
    const Value& row = builder.Add("mixer m", {{"seq_len", 17}}, {accuracy});
    return row.Find("results")->Find("bf16")->Find("outcome")->as_string();
  };
  CHECK(outcome({.precision = Precision::kBf16, .comparisons = {OneNumber(0, 0)}}) == "passed");
  CHECK(Passed(builder.Build()));
  CHECK(outcome({.precision = Precision::kBf16, .failure = "too large", .skipped = true}) ==
        "skipped");
  CHECK(Passed(builder.Build()));
  CHECK(outcome({.precision = Precision::kBf16, .failure = "it threw"}) == "failed");
  CHECK(outcome({.precision = Precision::kBf16, .comparisons = {large}}) == "failed");
  CHECK(outcome({.precision = Precision::kBf16, .comparisons = {infinite}}) == "failed");
  const Value table = builder.Build();
  CHECK_FALSE(Passed(table));

  builder.Add(
      "mixer n", {{"seq_len", 17}},
      {{.precision = Precision::kBf16, .comparisons = {OneNumber(1e-3, 1e-3)}, .num_pieces = 2}});
  const std::string in_pieces = RenderMarkdown(builder.Build(), {});
  CHECK_THAT(in_pieces, Catch::Contains("| in 2 pieces of the batch: "));

  const Object facts{{"device", "none"}};
  const Value read = io::ParseJson(DumpTable(table, facts));
  CHECK(*read.Find("rows") == *table.Find("rows"));
  CHECK(*read.Find("pools") == *table.Find("pools"));
  CHECK(*read.Find("device") == Value("none"));
  CHECK(MergeTables({table, read}).Find("rows")->as_array().size() == 10);
  const std::string page = RenderMarkdown(table, facts);
  CHECK_THAT(page, Catch::Contains("| mixer m | bf16 | 1 | 3 | 1 |"));
  CHECK_THAT(page, Catch::Contains("**failed**: it threw"));
  CHECK_THAT(page, Catch::Contains("**failed**: d A\\_log is not finite") ||
                       Catch::Contains("**failed**: d A_log is not finite"));
}

}  // namespace
}  // namespace mixerbench::accuracy
