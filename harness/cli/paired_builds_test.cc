// Which seeds a top-up asks of which build, by a program that writes down how it was started.
// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/paired_builds.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "harness/run/plan.h"
#include "io/atomic_file.h"
#include "io/json.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = R"(#!/bin/bash
{ cat "$2"; echo; echo "${*:4}"; } >> "$0.calls"
)";

struct Folders {
  fs::path all = fs::path(std::getenv("TEST_TMPDIR")) / "top-up";
  Builds builds{(all / "base-program").string(), (all / "new-program").string()};

  Folders() {
    fs::remove_all(all);
    fs::create_directories(all);
    for (const std::string& program : {builds.base, builds.candidate}) {
      std::ofstream(program) << kProgram;
      fs::permissions(program, fs::perms::owner_all);
    }
  }

  // The folder of a plan with these seeds.
  fs::path Make(const std::string& name, const Value& config,
                const std::vector<std::uint64_t>& seeds, bool is_partial = false) const {
    Plan plan{name, config, {}};
    for (const std::uint64_t seed : seeds) {
      reports::CellResult cell;
      cell.name = "mqar/gla";
      cell.kind = "train";
      cell.seed = seed;
      cell.partial = is_partial;
      for (std::string* id :
           {&cell.experiment_id, &cell.code_id, &cell.data_id, &cell.group_id, &cell.run_id}) {
        *id = "sha256:" + Sha256Hex(name + std::to_string(seed));
      }
      cell.config = Object{{"kind", "train"}, {"device_type", "cuda"}};
      plan.cells.push_back(cell);
    }
    fs::create_directories(all / name / "cells");
    WritePlan(all / name, plan);
    return all / name;
  }

  // What a build was started with: of each run the suite, then a line of arguments.
  static std::string CallsOf(const std::string& program) {
    const std::string file = program + ".calls";
    return fs::exists(file) ? io::ReadFile(file) : "";
  }
};

// The text of a suite as a file has it.
std::string TextOf(const Value& suite) { return io::DumpJson(suite, 1); }

TEST_CASE("top-up: each suite of a merged plan runs with more seeds") {
  const Folders folders;
  const Value first = Object{{"name", "s"}};
  const Value second = Object{{"name", "t"}};
  const fs::path base = folders.Make("one", first, {3, 4});
  const fs::path merged = folders.Make("two", Object{{"merged", Array{first, second}}}, {3, 4});
  AddSeeds(folders.builds, base, merged, 4, "cpu");
  const auto line = [&](const fs::path& out) {
    return "\n" + out.string() + " --seeds 3,4,5,6, --plan merge --device cpu -q\n";
  };
  CHECK(Folders::CallsOf(folders.builds.base) == TextOf(first) + line(base));
  CHECK(Folders::CallsOf(folders.builds.candidate) ==
        TextOf(first) + line(merged) + TextOf(second) + line(merged));
}

TEST_CASE("top-up: seeds are added on the kind of device that the others ran on") {
  const Folders folders;
  const fs::path base = folders.Make("one", Object{{"name", "s"}}, {0});
  const fs::path candidate = folders.Make("two", Object{{"name", "s"}}, {0});
  AddSeeds(folders.builds, base, candidate, 2, "auto");
  for (const std::string& program : {folders.builds.base, folders.builds.candidate}) {
    CHECK_THAT(Folders::CallsOf(program), Catch::Contains(" --device cuda -q"));
  }
}

TEST_CASE("top-up: fresh seeds grow with the others, in each suite") {
  const Folders folders;
  const auto suite = [](const std::string& name) {
    const Value select = Object{{"by", "validation.accuracy"},
                                {"over", Array{"train.lr"}},
                                {"reseed", Object{{"count", 2}}}};
    return Value(Object{{"name", name}, {"sweep", Object{{"select", select}}}});
  };
  const fs::path base = folders.Make("one", suite("s"), {0});
  const fs::path merged =
      folders.Make("two", Object{{"merged", Array{suite("s"), suite("t")}}}, {0});
  AddSeeds(folders.builds, base, merged, 2, "cpu");
  const std::string calls = Folders::CallsOf(folders.builds.candidate);
  const std::string set = "-q --set sweep.select.reseed.count=2\n";
  CHECK(calls.find(set) != calls.rfind(set));
}

TEST_CASE("top-up: what has no seeds to add is refused before either side has run") {
  const Folders folders;
  const Value suite = Object{{"name", "s"}};
  const fs::path whole = folders.Make("whole", suite, {0});
  const fs::path partial = folders.Make("partial", suite, {0}, true);
  CHECK_THROWS_WITH(
      AddSeeds(folders.builds, whole, partial, 5, "cpu"),
      Catch::StartsWith("--top-up: ") && Catch::Contains("partial: ran with --limit"));
  CHECK_THROWS_AS(AddSeeds(folders.builds, whole, partial, 5, "cpu"), ConfigError);
  CHECK_THROWS_WITH(AddSeeds(folders.builds, whole, folders.all, 5, "cpu"),
                    Catch::Contains("no plan to add seeds to"));
  CHECK(Folders::CallsOf(folders.builds.base).empty());
}

}  // namespace
}  // namespace mixerbench::harness
