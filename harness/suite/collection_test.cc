// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/collection.h"

#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "harness/suite/suite.h"
#include "harness/suite/suite_text.h"
#include "io/json.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / "mixerbench_collection_test") {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

// What reading a collection with these suites throws.
std::string Refusal(const Folder& folder, const std::string& suites) {
  try {
    ReadCollection(folder.Write("c.json", R"({"name": "c", "suites": )" + suites + "}"));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("collection: items take the suite's name unless they say otherwise") {
  const Folder folder;
  folder.Write("mine.json", "{}");
  const Collection c = ReadCollection(folder.Write("c.json", R"({"name": "c", "suites": [
      {"suite": "quickstart"},
      {"suite": "mine.json", "set": {"train.lr": 0.5, "model": {"d_model": 8}}},
      {"suite": "quickstart", "name": "again"}]})"));
  CHECK(c.name == "c");
  REQUIRE(c.items.size() == 3);
  CHECK(c.items[0].name == "quickstart");
  CHECK(c.items[1].name == "mine");
  CHECK(std::filesystem::exists(c.items[1].suite));
  CHECK(c.items[2].name == "again");

  SuiteOverrides of_command;
  of_command.set = {{"train.lr", "0.25"}};
  const SuiteOverrides overrides = OverridesOf(c.items[1], of_command);
  const io::Settings expected = {{"name", "\"mine\""},
                                 {"model", "{\"d_model\":8}"},
                                 {"train.lr", "0.5"},
                                 {"train.lr", "0.25"}};
  CHECK(overrides.set == expected);  // the command line has the last word
}

TEST_CASE("collection: what is wrong is named by its place") {
  const Folder folder;
  CHECK(Refusal(folder, "[]") == "/suites: expected a list of objects with at least one entry");
  CHECK_THAT(Refusal(folder, R"([{"suite": "quickstrat"}])"),
             Catch::StartsWith("/suites/0/suite: unknown suite 'quickstrat' (did you mean "
                               "'quickstart'?)"));
  CHECK_THAT(Refusal(folder, R"([{"suite": "quickstart"}, {"suite": "quickstart"}])"),
             Catch::StartsWith("/suites/1: two suites are called 'quickstart'"));
  CHECK_THAT(Refusal(folder, R"([{"suite": "quickstart", "name": "../x"}])"),
             Catch::StartsWith("/suites/0/name: "));
  CHECK_THAT(Refusal(folder, R"([{"suite": "quickstart", "set": {"name": "x"}}])"),
             Catch::StartsWith("/suites/0/set/name: "));
  CHECK_THAT(Refusal(folder, R"([{"suite": "quickstart", "sets": {}}])"),
             Catch::Contains("'sets'"));
  CHECK_THROWS_WITH(ReadCollection("smok"), Catch::Contains("did you mean 'smoke'?"));
}

TEST_CASE("collection: all that is wrong with any of its suites is told at once") {
  const Folder folder;
  const Registries registries;
  folder.Write("first.json", R"({"name": "a", "modle": {}, "task": {"name": "mqra"}})");
  folder.Write("second.json", R"({"name": "b", "task": )");
  const Collection c = ReadCollection(folder.Write("c.json", R"({"name": "c", "suites": [
      {"suite": "first.json"}, {"suite": "quickstart"}, {"suite": "second.json", "name": "other"},
      {"suite": "quickstart", "name": "again", "set": {"train.lr": "fast"}}]})"));
  try {
    ParseItems(c, {}, registries);
    FAIL("accepted");
  } catch (const ConfigError& error) {
    CHECK(error.code() == ExitCode::kUsage);
    CHECK_THAT(error.what(),
               Catch::StartsWith("c: 3 suites cannot be run\nsuite 'first' (" + c.items[0].suite) &&
                   Catch::Contains("unknown key 'modle'") &&
                   Catch::Contains("\nsuite 'other' (" + c.items[2].suite + "): ") &&
                   Catch::Contains("\nsuite 'again' (quickstart): /train/lr: expected a number"));
  }
  const Collection one = ReadCollection(folder.Write("one.json", R"({"name": "one", "suites": [
      {"suite": "quickstart", "set": {"train.lr": "fast"}}]})"));
  CHECK_THROWS_WITH(
      ParseItems(one, {}, registries),
      Catch::StartsWith("one: suite 'quickstart': /train/lr: expected a number, got string"));
}

TEST_CASE("collection: the command line cannot give all of its suites one name") {
  SuiteOverrides overrides;
  overrides.set = {{"name", "one"}};
  CHECK_THROWS_WITH(ParseItems(ReadCollection("mad"), overrides, Registries()),
                    Catch::StartsWith("--set name: the suites of a collection have the names"));
}

TEST_CASE("collection: every suite of the built-in ones is valid, and they hold what they say") {
  const Registries registries;
  std::map<std::string, std::size_t> num_points;
  std::set<std::string> tasks;
  for (const std::string& name : BuiltInCollectionNames()) {
    const Collection collection = ReadCollection(name);
    CHECK(collection.name == name);
    for (const CollectionItem& item : collection.items) {
      INFO(name << " " << item.name);
      const Suite suite = ParseSuite(ReadSuiteText(item.suite), OverridesOf(item, {}), registries);
      CHECK(suite.name == item.name);
      std::set<std::string> settings;
      for (const Cell& cell : suite.cells) {
        settings.insert(io::DumpJson(cell.task.train.front().params) + cell.task.name +
                        std::to_string(cell.task.train.front().num_examples));
        if (name == "smoke") tasks.insert(cell.task.name);
      }
      num_points[name] += settings.size();
    }
  }
  CHECK(num_points.at("mad") == 66);
  CHECK(num_points.at("mqar-fig2") == 4);
  CHECK(tasks.size() == registries.tasks.entries().size());  // a new task joins the smoke test
}

TEST_CASE("collection: MAD's settings stay apart in their reduced form") {
  const Registries registries;
  SuiteOverrides of_command;
  of_command.smoke = true;
  std::size_t num_cells = 0;
  for (const CollectionItem& item : ReadCollection("mad").items) {
    const SuiteOverrides overrides = OverridesOf(item, of_command);
    num_cells += ParseSuite(ReadSuiteText(item.suite), overrides, registries).cells.size();
  }
  CHECK(num_cells == 66);
}

TEST_CASE("collection: \"all\" is every mixer that stands alone, and neighbours can be added") {
  const Registries registries;
  SuiteOverrides overrides;
  const std::string text = R"({"name": "t", "task": {"name": "mqar", "vocab_size": 64,
      "input_seq_len": 16, "num_kv_pairs": 2, "train": {"num_examples": 64}, "test": {}},
      "model": {"d_model": 64}, "train": {"batch_size": 16},
      "sweep": {"grid": {"model.sequence_mixer": "all"}}})";
  std::set<std::string> mixers;
  for (const Cell& cell : ParseSuite(text, overrides, registries).cells) {
    mixers.insert(cell.model.Find("sequence_mixer")->Find("name")->as_string());
  }
  CHECK(mixers.contains("attention"));
  CHECK(mixers.contains("rwkv7"));
  CHECK_FALSE(mixers.contains("hybrid"));
  CHECK_FALSE(mixers.contains("resona"));
  CHECK(mixers.size() + 8 > registries.mixers.entries().size());
  std::string with_more = text;
  with_more.replace(with_more.rfind(R"("all")"), 5, R"(["all", {"name": "resona"}])");
  const auto cells = ParseSuite(with_more, overrides, registries).cells;
  REQUIRE(cells.size() == mixers.size() + 1);
  CHECK(cells.back().model.Find("sequence_mixer")->Find("name")->as_string() == "resona");
  overrides.add_mixers = {R"({"name": "gla", "num_heads": 4})"};
  CHECK(ParseSuite(text, overrides, registries).cells.size() == mixers.size() + 1);
  CHECK(ParseSuite(with_more, overrides, registries).cells.size() == mixers.size() + 2);
}

TEST_CASE(
    "collection: the step of every mixer is timed, of those that hold others by default too") {
  const Registries registries;
  std::set<std::string> mixers;
  for (const Cell& cell :
       ParseSuite(ReadSuiteText("mixers-step-time"), SuiteOverrides{}, registries).cells) {
    if (cell.kind != CellKind::kThroughput) continue;
    mixers.insert(cell.model.Find("sequence_mixer")->Find("name")->as_string());
  }
  for (const auto& [name, entry] : registries.mixers.entries()) {
    CAPTURE(name);
    CHECK(mixers.contains(name) != (name == "hybrid"));  // an arrangement, no mixer of its own
  }
}

}  // namespace
}  // namespace mixerbench::harness
