// SPDX-License-Identifier: Apache-2.0
#include "harness/run/run_collection.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/suite/collection.h"
#include "harness/suite/suite.h"
#include "harness/suite/suite_text.h"
#include "io/json.h"
#include "reports/score/score.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

// Tasks and ways of training that a suite asks for, whatever the mixer, the rate and the decay.
std::set<std::string> SettingsOf(const Suite& suite) {
  std::set<std::string> settings;
  for (const Cell& cell : suite.cells) {
    TrainConfig train = cell.train;
    train.lr = train.weight_decay = 0;
    settings.insert(io::DumpJson(TaskPlanToValue(cell.task)) +
                    io::DumpJson(TrainFields().Write(train)));
  }
  return settings;
}

TEST_CASE("collection: a built-in score is over the settings that its suites ask for") {
  const Registries registries;
  std::map<std::string, std::size_t> num_scored;
  for (const std::string& name : BuiltInCollectionNames()) {
    const Collection collection = ReadCollection(name);
    const auto rule = reports::ReadScoreRule(collection.config);
    if (!rule) continue;
    std::map<std::string, std::size_t> num_settings;
    std::vector<std::string> names;
    for (const CollectionItem& item : collection.items) {
      const Suite suite = ParseSuite(ReadSuiteText(item.suite), OverridesOf(item, {}), registries);
      num_settings[item.name] = SettingsOf(suite).size();
      names.push_back(item.name);
    }
    CHECK_NOTHROW(reports::RequireSuites(*rule, names));
    for (const reports::ScorePart& part : rule->parts) {
      INFO(name << " " << part.suite);
      CHECK(static_cast<std::size_t>(part.num_settings) == num_settings.at(part.suite));
      num_scored[name] += num_settings.at(part.suite);
    }
  }
  CHECK(num_scored.at("mad") == 66);
}

}  // namespace
}  // namespace mixerbench::harness
