// conformance: every mixer and core of the registries on a GPU against fp64, at sizes that reach
// every device plan, in fp32, tf32 and bf16. Writes a table as JSON and for people (docs/GPU.md).
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <torch/headeronly/version.h>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "harness/device/device.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "kernels/core.h"
#include "models/mixer.h"
#include "tests/accuracy/accuracy.h"
#include "tests/accuracy/cases.h"
#include "tests/accuracy/table.h"

namespace mixerbench::accuracy {
namespace {

const std::vector<Precision> kPrecisions = {Precision::kBf16, Precision::kTf32, Precision::kFp32};

struct Options {
  std::string device = "cuda";
  std::string filter;  // part of the name of a unit
  std::size_t shard = 0, num_shards = 1;
  double time_limit_s = 0;  // 0: none
  bool list = false;
  std::string out = ".";
  std::vector<std::string> merge;
};

// Heads below the number of multiprocessors, just above it, and above twice of it. Sizes that no
// device code has (24, 96) stand between those that it has.
Sizes SizesFor(std::int64_t num_multiprocessors) {
  return {.d_model = {64, 96, 128, 256},
          .num_heads = {1, 2, 4, 8, 16},
          .head_k_dim = {16, 24, 32, 64, 96, 128, 256},
          .head_v_dim = {16, 32, 64, 96, 128, 256},
          .seq_len = {1, 17, 64, 65, 193, 256, 1000, 4096},
          .num_rivals = {0, num_multiprocessors, 2 * num_multiprocessors},
          .max_elements = std::int64_t{1} << 24,
          .max_operations = 40'000};
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Registered {
  models::MixerRegistry mixers{"mixer"};
  kernels::CoreRegistry cores{"core"};

  Registered() {
    models::RegisterMixers(mixers);
    kernels::RegisterCores(cores);
  }
};

// Units are dealt out in turn: all cases of one are in one shard.
class Dealer {
 public:
  explicit Dealer(const Options& options) : options_(options) {}

  bool Takes(const std::string& unit) {
    const bool in_shard = num_units_++ % options_.num_shards == options_.shard;
    return in_shard && unit.find(options_.filter) != std::string::npos;
  }

 private:
  const Options& options_;
  std::size_t num_units_ = 0;
};

std::vector<Case> ChooseCases(const Options& options, const Registered& registered,
                              at::Device device, const Sizes& sizes) {
  std::vector<Case> chosen;
  Dealer dealer(options);
  const auto append = [&](std::vector<Case> cases) {
    for (auto& c : cases) chosen.push_back(std::move(c));
  };
  for (const std::string& name : registered.cores.Names()) {
    if (dealer.Takes("core " + name)) append(CoreCases(registered.cores, name, sizes, device));
  }
  for (const std::string& name : registered.mixers.Names()) {
    if (dealer.Takes("mixer " + name)) append(MixerCases(registered.mixers, name, sizes, device));
  }
  if (chosen.empty()) throw ConfigError("--filter " + options.filter, "no such unit in this shard");
  return chosen;
}

// A line for each unit, and their sum.
void PrintCosts(const std::vector<Case>& cases) {
  struct Cost {
    int num_cases = 0, num_left_out = 0;
    double operations = 0;
  };
  std::map<std::string, Cost> costs;
  for (const Case& c : cases) {
    for (Cost* cost : {&costs[c.unit], &costs["all"]}) {
      ++(c.left_out.empty() ? cost->num_cases : cost->num_left_out);
      cost->operations += c.operations;
    }
  }
  for (const auto& [unit, cost] : costs) {
    std::printf("%-28s %4d cases, %8.0f operations in a pass of each, %2d lengths left out\n",
                unit.c_str(), cost.num_cases, cost.operations, cost.num_left_out);
  }
}

void PrintProblems(const Value& row) {
  for (const auto& [precision, result] : row.Find("results")->as_object()) {
    if (result.Find("outcome")->as_string() == "passed") continue;
    std::printf("%s %s %s: %s\n", row.Find("unit")->as_string().c_str(), precision.c_str(),
                io::DumpJson(*row.Find("factors")).c_str(), io::DumpJson(result).c_str());
  }
}

std::vector<Accuracy> MeasureCase(const Case& c, Deadline deadline) {
  const bool is_late = std::chrono::steady_clock::now() > deadline;
  if (c.left_out.empty() && !is_late) return Measure(*c.make(), kPrecisions, deadline);
  std::vector<Accuracy> failures;
  for (const Precision precision : kPrecisions) {
    failures.push_back(c.left_out.empty() ? Failure(precision, std::string(kTimeLimitReached))
                                          : Failure(precision, c.left_out, /*skipped=*/true));
  }
  return failures;
}

Value MeasureAll(const std::vector<Case>& cases, double time_limit_s) {
  const auto start = std::chrono::steady_clock::now();
  const Deadline deadline =
      time_limit_s > 0 ? start + std::chrono::milliseconds(std::llround(1e3 * time_limit_s))
                       : kNoDeadline;
  TableBuilder builder;
  std::string unit;
  for (const Case& c : cases) {
    if (c.unit != unit) std::printf("%6.1f s  %s\n", SecondsSince(start), c.unit.c_str());
    unit = c.unit;
    PrintProblems(builder.Add(c.unit, c.factors, MeasureCase(c, deadline)));
    std::fflush(stdout);
  }
  std::printf("%6.1f s  %zu cases\n", SecondsSince(start), cases.size());
  return builder.Build();
}

std::vector<DeclaredPlan> DeclaredPlans(bool is_sm90) {
  const Registered registered;
  std::vector<DeclaredPlan> declared;
  for (const auto& [name, core] : registered.cores.entries()) {
    for (const auto& plan : core.device_plans) {
      if (plan.needs_sm90 && !is_sm90) continue;
      for (const std::string& dtype : plan.dtypes) declared.push_back({name, plan.name, dtype});
    }
  }
  return declared;
}

// Adds to `facts` how many cases ran each plan that a core declares. False when one never ran.
bool CountAllPlans(const Value& table, Object& facts) {
  const Value* capability = facts.at("gpu").Find("compute_capability");
  if (capability == nullptr) return true;  // no device code on the CPU
  facts["plans"] = CountPlans(table, DeclaredPlans(capability->as_string() == "9.0"));
  bool all = true;
  for (const Value& count : facts.at("plans").as_array()) {
    if (count.Find("num_cases")->as_int() > 0) continue;
    all = false;
    std::printf("never ran: %s\n", io::DumpJson(count).c_str());
  }
  return all;
}

// Of all cases: every plan must be among them, and a page for people is written too.
bool ReportWhole(const Value& table, Object facts, const std::filesystem::path& path) {
  const bool all_plans = CountAllPlans(table, facts);
  io::WriteFileAtomically(path, DumpTable(table, facts));
  auto page = path;
  io::WriteFileAtomically(page.replace_extension(".md"), RenderMarkdown(table, facts));
  return all_plans;
}

int Conclude(const Value& table, bool all_plans, const std::filesystem::path& path) {
  for (const Value& pool : table.Find("pools")->as_array()) {
    if (pool.Find("ratio")->as_double() > 1) {
      std::printf("all cases together: %s\n", io::DumpJson(pool).c_str());
    }
  }
  const bool passed = Passed(table) && all_plans;
  std::printf("%s -> %s\n", passed ? "passed" : "FAILED", path.c_str());
  return static_cast<int>(passed ? ExitCode::kOk : ExitCode::kNo);
}

int RunHere(const Options& options) {
  const at::Device device = harness::ParseDevice(options.device);
  harness::WarmUp(device);
  const Value gpu = harness::DescribeGpu(device);
  const Value* multiprocessors = gpu.Find("multiprocessors");
  const Registered registered;
  const auto cases = ChooseCases(options, registered, device,
                                 SizesFor(multiprocessors ? multiprocessors->as_int() : 1));
  if (options.list) {
    PrintCosts(cases);
    return static_cast<int>(ExitCode::kOk);
  }
  const Object facts{{"gpu", gpu}, {"cuda", harness::CudaVersions()}, {"libtorch", TORCH_VERSION}};
  const Value table = MeasureAll(cases, options.time_limit_s);
  const std::filesystem::path out = options.out;
  if (options.num_shards == 1 && options.filter.empty()) {
    const bool all_plans = ReportWhole(table, facts, out / "conformance.json");
    return Conclude(table, all_plans, out / "conformance.json");
  }
  const auto path = out / ("conformance-" + std::to_string(options.shard) + "-of-" +
                           std::to_string(options.num_shards) + ".json");
  io::WriteFileAtomically(path, DumpTable(table, facts));
  return Conclude(table, /*all_plans=*/true, path);
}

int Merge(const Options& options) {
  std::vector<Value> tables;
  Object facts;
  for (const std::string& path : options.merge) {
    Value table = io::ParseJson(io::ReadFile(path), io::kReportLimits);
    Object own_facts = table.as_object();
    own_facts.erase("rows");
    own_facts.erase("pools");
    if (!tables.empty() && Value(own_facts) != Value(facts)) {
      throw ConfigError(path, "comes from another machine than " + options.merge.front());
    }
    facts = std::move(own_facts);
    tables.push_back(std::move(table));
  }
  const Value table = MergeTables(tables);
  const auto path = std::filesystem::path(options.out) / "conformance.json";
  const bool all_plans = ReportWhole(table, facts, path);
  return Conclude(table, all_plans, path);
}

int Main(int argc, char** argv) {
  Options options;
  std::string shard = "0/1";
  CLI::App app("Every mixer and core against fp64, in every precision and device plan.");
  app.add_option("-o,--out", options.out, "folder of conformance.json and conformance.md")
      ->check(CLI::ExistingDirectory);
  app.add_option("--device", options.device, "cuda, cuda:<0-9> or cpu");
  app.add_option("--filter", options.filter, "only units with this in their name (mixer gla)");
  app.add_option("--shard", shard, "I/N: every N-th unit; leaves conformance-I-of-N.json");
  app.add_option("--time-limit", options.time_limit_s, "seconds; what it does not reach fails");
  app.add_flag("--list", options.list, "how many cases there are, and what they cost; none is run");
  app.add_option("--merge", options.merge, "tables of shards to be joined; nothing is run")
      ->check(CLI::ExistingFile);
  try {
    app.parse(argc, argv);
    if (std::sscanf(shard.c_str(), "%zu/%zu", &options.shard, &options.num_shards) != 2 ||
        options.shard >= options.num_shards) {
      throw ConfigError("--shard " + shard, "expected I/N with I below N, such as 0/4");
    }
    return options.merge.empty() ? RunHere(options) : Merge(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  } catch (const Error& error) {
    std::fprintf(stderr, "conformance: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace
}  // namespace mixerbench::accuracy

int main(int argc, char** argv) { return mixerbench::accuracy::Main(argc, argv); }
