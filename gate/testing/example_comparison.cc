// SPDX-License-Identifier: Apache-2.0
#include "gate/testing/example_comparison.h"

#include "gate/testing/made_results.h"
#include "gate/verdict/compare.h"

namespace mixerbench::gate {
namespace {

using reports::CellResult;

constexpr const char* kHostile =
    "a\"b'c&d<script>alert(1)</"
    "script>\n|`*_[x](javascript:1)\x1b[31m]]>%0A::error::\xff\xe2\x80\xae";

// Pairs of two mixers: one build is slower with the first, the runner noisy with the second.
Timings ExampleTimings(std::mt19937_64& random) {
  Timings timings{MadePairs(10, 0.052, 0.005, random), MadePairs(10, 0.05, 0.005, random)};
  const std::vector<ProcessPair> noisy = MadePairs(10, 0, 0.06, random);
  for (std::size_t i = 0; i < noisy.size(); ++i) {
    const auto add = [](CellResult cell, std::vector<CellResult>& to) {
      cell.name = "throughput/base_conv/d_model=64";
      cell.experiment_id = "experiment of " + cell.name;
      to.push_back(cell);
    };
    add(noisy[i].base.front(), timings.first[i].base);
    add(noisy[i].candidate.front(), timings.first[i].candidate);
  }
  return timings;
}

void MakeHostile(std::vector<CellResult>& cells) {
  for (CellResult& cell : cells) {
    cell.name = "task " + std::string(kHostile) + "/mixer " + kHostile + cell.name;
    cell.experiment_id += kHostile;
    cell.code_id = kHostile;
    cell.environment = Object{{"cpu", Object{{"model", kHostile}}}};
    cell.reason = kHostile;
    for (auto& row : cell.accuracy) row.axes = Object{{kHostile, kHostile}};
  }
}

}  // namespace

Comparison ExampleComparison(bool is_hostile) {
  std::mt19937_64 random(11);
  const Setting steady{.steps = 700, .steps_sd = 0.06};
  const auto with = [&](const char* task, const char* mixer, Setting setting) {
    setting.task = task;
    setting.mixer = mixer;
    return setting;
  };
  Setting slower = steady, faster = steady, noisy = steady, smooth = steady;
  slower.steps *= 1.45;
  faster.steps *= 0.45;
  noisy.steps_sd = 0.6;
  smooth.steps = 1e9;
  smooth.accuracy = 0.62;
  smooth.accuracy_sd = 0.006;
  std::vector<CellResult> base =
      MadeCells({with("mqar", "gla", steady), with("mqar", "attention", steady),
                 with("mqar", "delta_net", steady), with("mqar", "linear_attention", steady),
                 with("mqar", "hgrn2", steady), with("niah", "retnet", smooth)},
                10, "1", random);
  std::vector<CellResult> candidate =
      MadeCells({with("mqar", "gla", slower), with("mqar", "attention", steady),
                 with("mqar", "delta_net", noisy), with("mqar", "linear_attention", faster),
                 with("mqar", "gsa", steady), with("niah", "retnet", smooth)},
                10, "2", random);
  base.push_back(MadeTimes("gla", 1, "1"));
  candidate.push_back(MadeTimes("gla", 1.05, "2"));
  candidate.front().partial = true;
  candidate.back().throughput[1].state = reports::CellState::kOom;
  candidate.back().throughput[1].reason = "requested 34.0 GiB";
  Timings timings = ExampleTimings(random);
  if (is_hostile) {
    MakeHostile(base);
    MakeHostile(candidate);
    for (ProcessPair& pair : timings.first) {
      MakeHostile(pair.base);
      MakeHostile(pair.candidate);
    }
  }
  return CompareReports({.base = {is_hostile ? kHostile : "out/base", base},
                         .candidate = {is_hostile ? kHostile : "out/new", candidate},
                         .timings = &timings},
                        {});
}

}  // namespace mixerbench::gate
