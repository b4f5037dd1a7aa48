// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/paired_builds.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <iostream>
#include <optional>
#include <set>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/error.h"
#include "gate/verdict/compare.h"
#include "harness/run/folder_report.h"
#include "harness/run/plan.h"
#include "harness/run/plan_suites.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/summary/select.h"

extern char** environ;  // POSIX declares it in no header

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

constexpr int kSignalBase = 128;  // of the exit code of a shell whose command died of a signal

// Runs a program to its end; what it prints goes to stderr, where no answer is.
int RunProgram(const std::string& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "mixerbench");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw Error(ExitCode::kEnvironment, program + ": " + std::strerror(error));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
}

// Cells that failed are results too; anything else means that there is none.
void RunBuild(const std::string& program, const std::vector<std::string>& arguments) {
  const int code = RunProgram(program, arguments);
  if (code == static_cast<int>(ExitCode::kOk) || code == static_cast<int>(ExitCode::kCellsFailed)) {
    return;
  }
  const auto passed_on = code == static_cast<int>(ExitCode::kStoppedEarly) ? ExitCode::kStoppedEarly
                                                                           : ExitCode::kEnvironment;
  throw Error(passed_on,
              fmt::format("{} {} ended with exit code {}", program, arguments.front(), code));
}

fs::path PairFolder(const fs::path& folder, int stage, std::int64_t pair, bool candidate_first) {
  return folder / fmt::format("stage-{}", stage) /
         fmt::format("{:03}-{}-first", pair, candidate_first ? "new" : "base");
}

void MeasureStage(const Builds& builds, const std::string& suite, const std::string& device,
                  const fs::path& folder, int stage, std::int64_t pairs) {
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    // Base, new, new, base: a drift of the machine meets both sides alike.
    const bool candidate_first = pair % 2 == 1;
    const fs::path at = PairFolder(folder, stage, pair, candidate_first);
    fs::create_directories(at);
    for (const bool is_second : {false, true}) {
      const bool is_candidate = candidate_first != is_second;
      RunBuild(is_candidate ? builds.candidate : builds.base,
               {"bench", suite, "-o", (at / (is_candidate ? "new" : "base")).string(), "--device",
                device, "--jobs", "1", "-q"});
    }
    std::cerr << fmt::format("stage {}: pair {} of {} measured\n", stage, pair + 1, pairs);
  }
}

// The first `most` pairs of which both processes began.
std::vector<gate::ProcessPair> ReadStage(const fs::path& folder, int stage, std::int64_t most) {
  std::vector<fs::path> found;
  const fs::path at = folder / fmt::format("stage-{}", stage);
  if (fs::is_directory(at)) {
    for (const auto& entry : fs::directory_iterator(at)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<gate::ProcessPair> pairs;
  for (const fs::path& pair : found) {
    if (static_cast<std::int64_t>(pairs.size()) == most) break;
    if (!ReadPlan(pair / "base") || !ReadPlan(pair / "new")) continue;
    pairs.push_back({ReportOf(pair / "base").cells, ReportOf(pair / "new").cells,
                     pair.filename().string().ends_with("new-first")});
  }
  return pairs;
}

// "3,4,5": the seeds of the trainings in a folder, then the next numbers.
std::string SeedList(const Plan& plan, std::int64_t count) {
  std::set<std::uint64_t> seeds;
  for (const auto& cell : plan.cells) {
    const bool chooses = cell.phase != reports::CellPhase::kReport;
    if (cell.kind == "train" && chooses) seeds.insert(cell.seed);
  }
  if (seeds.empty()) seeds.insert(0);
  while (seeds.size() < static_cast<std::size_t>(count)) seeds.insert(*seeds.rbegin() + 1);
  std::string list;
  for (const std::uint64_t seed : seeds) list += std::to_string(seed) + ",";
  return list;
}

// What its trainings run on, where nothing else is asked for: their seeds would be of two kinds of
// devices otherwise.
std::string DeviceOf(const Plan& plan, const std::string& wanted) {
  if (wanted != "auto") return wanted;
  for (const auto& cell : plan.cells) {
    const Value* const type = cell.config.Find("device_type");
    if (cell.kind == "train" && type) return type->as_string();
  }
  return wanted;
}

Plan PlanToGrow(const fs::path& folder) {
  std::optional<Plan> plan = ReadPlan(folder);
  if (!plan) throw Error(ExitCode::kBadInput, folder.string() + ": no plan to add seeds to");
  if (std::any_of(plan->cells.begin(), plan->cells.end(),
                  [](const reports::CellResult& cell) { return cell.partial; })) {
    throw ConfigError("--top-up", folder.string() +
                                      ": ran with --limit, and more seeds would be of another "
                                      "experiment; run it without");
  }
  return *std::move(plan);
}

}  // namespace

std::string ThisProgram() { return fs::read_symlink("/proc/self/exe").string(); }

void MeasurePairs(const Builds& builds, const std::string& suite, const std::string& device,
                  const fs::path& folder, const gate::GateSettings& settings) {
  MeasureStage(builds, suite, device, folder, 1, settings.pairs);
  if (gate::WantsSecondStage(ReadPairs(folder, settings), settings)) {
    std::cerr << "slower in the first stage; measuring fresh pairs\n";
    MeasureStage(builds, suite, device, folder, 2, settings.pairs);
  }
}

gate::Timings ReadPairs(const fs::path& folder, const gate::GateSettings& settings) {
  if (!fs::is_directory(folder)) {
    throw Error(ExitCode::kBadInput, folder.string() + ": no folder of measured pairs");
  }
  return {ReadStage(folder, 1, settings.pairs), ReadStage(folder, 2, settings.pairs)};
}

void AddSeeds(const Builds& builds, const fs::path& base, const fs::path& candidate,
              std::int64_t count, const std::string& device) {
  const Plan plans[] = {PlanToGrow(base), PlanToGrow(candidate)};
  for (const bool is_candidate : {false, true}) {
    const Plan& plan = plans[is_candidate ? 1 : 0];
    for (const Value& suite : SuitesOf(plan.config)) {
      const fs::path file =
          fs::temp_directory_path() / fmt::format("mixerbench-{}-{}.json", getpid(), is_candidate);
      io::WriteFileAtomically(file, io::DumpJson(suite, 1));
      std::vector<std::string> arguments = {
          "run",      file.string(),          "-o",     (is_candidate ? candidate : base).string(),
          "--seeds",  SeedList(plan, count),  "--plan", "merge",
          "--device", DeviceOf(plan, device), "-q"};
      const auto fresh = std::ssize(reports::SelectRuleOf(plan.config).fresh_seeds);
      if (fresh > 0) {
        const std::int64_t most = std::max<std::int64_t>(count, fresh);
        arguments.insert(arguments.end(),
                         {"--set", fmt::format("sweep.select.reseed.count={}", most)});
      }
      RunBuild(is_candidate ? builds.candidate : builds.base, arguments);
      fs::remove(file);
    }
  }
}

}  // namespace mixerbench::harness
