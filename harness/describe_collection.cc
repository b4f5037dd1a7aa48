// SPDX-License-Identifier: Apache-2.0
#include "harness/describe_collection.h"

#include <cstddef>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/cli/describe_fields.h"
#include "harness/run/run_plan.h"
#include "harness/suite/collection.h"
#include "harness/suite/suite.h"
#include "io/json.h"
#include "io/text.h"
#include "reports/score/score.h"

namespace mixerbench::harness {
namespace {

struct SuiteFacts {
  std::string name;
  std::string suite;
  std::set<std::string> tasks;
  std::size_t num_cells = 0;
  std::optional<reports::ScorePart> part;  // in the score
};

std::vector<SuiteFacts> FactsOf(const Collection& collection,
                                const std::optional<reports::ScoreRule>& score,
                                const Registries& registries) {
  std::vector<SuiteFacts> all;
  const std::vector<Suite> suites = ParseItems(collection, {}, registries);
  for (std::size_t i = 0; i < suites.size(); ++i) {
    const CollectionItem& item = collection.items[i];
    SuiteFacts facts{
        .name = item.name, .suite = item.suite, .tasks = {}, .num_cells = 0, .part = {}};
    for (const Cell& cell : suites[i].cells) facts.tasks.insert(cell.task.name);
    facts.num_cells = suites[i].cells.size();
    for (const auto& part : score ? score->parts : std::vector<reports::ScorePart>{}) {
      if (part.suite == item.name) facts.part = part;
    }
    all.push_back(std::move(facts));
  }
  std::vector<std::string> names;
  for (const SuiteFacts& facts : all) names.push_back(facts.name);
  if (score) reports::RequireSuites(*score, names);
  return all;
}

Value ToValue(const SuiteFacts& facts) {
  Object object{{"name", facts.name},
                {"suite", facts.suite},
                {"tasks", Array(facts.tasks.begin(), facts.tasks.end())},
                {"num_cells", static_cast<std::int64_t>(facts.num_cells)}};
  if (facts.part) {
    object["weight"] = facts.part->weight;
    object["num_settings"] = facts.part->num_settings;
  }
  return object;
}

// "396 cells of suite mad, task mad_compression; weight 1, mean over 11 settings".
std::string ToText(const SuiteFacts& facts) {
  std::ostringstream text;  // by which a weight of 1 is "1"
  text << Counted(facts.num_cells, "cell") << " of suite " << facts.suite;
  const char* separator = facts.tasks.size() == 1 ? ", task " : ", tasks ";
  for (const std::string& task : facts.tasks) text << std::exchange(separator, " ") << task;
  if (facts.part) {
    text << "; weight " << facts.part->weight << ", mean over "
         << Counted(static_cast<std::size_t>(facts.part->num_settings), "setting");
  }
  return io::PlainLine(text.str());
}

}  // namespace

ExitCode DescribeCollection(const std::string& name_or_path, bool json,
                            const Registries& registries) {
  const Collection collection = ReadCollection(name_or_path);
  const auto score = reports::ReadScoreRule(collection.config);
  const std::vector<SuiteFacts> suites = FactsOf(collection, score, registries);
  std::size_t num_cells = 0;
  for (const SuiteFacts& facts : suites) num_cells += facts.num_cells;
  if (json) {
    Array items;
    for (const SuiteFacts& facts : suites) items.push_back(ToValue(facts));
    Object object{{"name", collection.name},
                  {"description", collection.description},
                  {"num_cells", static_cast<std::int64_t>(num_cells)},
                  {"score", nullptr},
                  {"suites", std::move(items)}};
    if (score) object["score"] = Object{{"name", score->name}, {"metric", score->metric}};
    std::cout << io::DumpJson(std::move(object), 2);
    return ExitCode::kOk;
  }
  std::cout << collection.name << ": " << io::PlainLine(collection.description) << "\nscore: "
            << (score ? io::PlainLine(score->name + ", of " + score->metric) : "none")
            << "\ncells: " << num_cells << "\n\nsuites\n";
  for (const SuiteFacts& facts : suites) std::cout << NameAndText(facts.name, ToText(facts));
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
