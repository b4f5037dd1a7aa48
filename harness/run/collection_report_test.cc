// What the score of a collection is made of.
// SPDX-License-Identifier: Apache-2.0
#include "harness/run/collection_report.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

TEST_CASE("collection report: a suite that is published as its report alone counts") {
  const fs::path out = fs::path(std::getenv("TEST_TMPDIR")) / "published";
  fs::create_directories(out / "a");
  fs::create_directories(out / "b");
  fs::copy_file("reports/testing/testdata/schema-1.2/report.json", out / "a" / "report.json");
  std::ofstream(out / "collection.json")
      << R"({"name": "c", "suites": [{"suite": "a"}, {"suite": "b"}],
             "score": {"name": "S", "metric": "accuracy",
                       "parts": [{"suite": "a", "num_settings": 1},
                                 {"suite": "b", "num_settings": 1}]}})";
  const auto score = ScoreOf(out);
  REQUIRE(score);
  REQUIRE(score->sources.size() == 1);
  CHECK(score->sources[0].first == "a");
}

}  // namespace
}  // namespace mixerbench::harness
