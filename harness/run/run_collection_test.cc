// SPDX-License-Identifier: Apache-2.0
#include "harness/run/run_collection.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/suite/collection.h"
#include "harness/suite/suite.h"
#include "reports/score/score.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

TEST_CASE("collection: a built-in score is over the settings that its suites ask for") {
  const Registries registries;
  std::map<std::string, std::int64_t> num_scored;
  for (const std::string& name : BuiltInCollectionNames()) {
    INFO(name);
    Collection collection = ReadCollection(name);
    const auto rule = reports::ReadScoreRule(collection.config);
    if (!rule) continue;
    const std::vector<Suite> suites = ParseItems(collection, {}, registries);
    CHECK_NOTHROW(CheckScore(collection));
    CHECK_NOTHROW(CheckNumSettings(collection, suites));
    for (const reports::ScorePart& part : rule->parts) num_scored[name] += part.num_settings;
    Value& part = collection.config.as_object()["score"].as_object()["parts"].as_array().front();
    part.as_object()["num_settings"] = rule->parts.front().num_settings + 1;
    CHECK_THROWS_WITH(CheckNumSettings(collection, suites),
                      Catch::StartsWith("/score/parts/0/num_settings: "));
  }
  CHECK(num_scored.at("mad") == 66);
}

}  // namespace
}  // namespace mixerbench::harness
