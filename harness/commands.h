// The commands behind the command line. Those that need no torch are functions here; the engine's
// are handed in, so that the front program can start another process for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/options.h"
#include "tasks/generate.h"

namespace mixerbench::harness {

// What needs libtorch.
struct EngineCommands {
  std::function<ExitCode(const RunOptions&)> run;
  std::function<ExitCode(const std::string& file, const SuiteOverrides&)> validate_suite;
  std::function<ExitCode(const std::string& kind, bool json)> list;  // mixers, cores, backbones
  std::function<ExitCode(const std::string& kind, const std::string& name, bool json)> describe;
  std::function<ExitCode(const GenerateOptions&)> generate_on_device;
  std::function<ExitCode(const UnitRunOptions&)> mixer_run;
  std::function<ExitCode(const UnitRunOptions&)> core_run;
  std::function<int(const std::string& device, const CellOptions&)> worker;
};

// Parses the arguments, runs one command and returns the exit code. Every error is one line on
// stderr: "error: what, where, what to do".
int Main(int argc, char** argv, const EngineCommands& engine);

// --- commands without torch --------------------------------------------------------------------

ExitCode ListTasks(bool json);
ExitCode ListPresets(bool json);
ExitCode ListSuites(bool json);
ExitCode DescribeTask(const std::string& name, bool json);

// Samples of one batch: count samples from position `first`, [count, seq_len] each.
using BatchGenerator = std::function<void(
    const std::string& task_name, const tasks::Task& task, const tasks::BatchRequest& request,
    std::vector<std::int32_t>& inputs, std::vector<std::int32_t>& labels)>;

// Writes samples as JSONL, .npy or safetensors, with a manifest beside files.
ExitCode Generate(const GenerateOptions& options, const BatchGenerator& generate);
void GenerateBatchOnCpu(const std::string& task_name, const tasks::Task& task,
                        const tasks::BatchRequest& request, std::vector<std::int32_t>& inputs,
                        std::vector<std::int32_t>& labels);

// Report of finished cells below `out` in one format on stdout: json, md, html, csv.
ExitCode Report(const std::string& out, const std::string& format);

// Checks a report or a cell's result against its schema and its checksums. False when the file is
// neither, so it may be a suite. Throws Error(kBadInput) with the first violations.
bool ValidateResultFile(const std::string& file);

// "report" or "cell": the JSON Schema on stdout.
ExitCode PrintSchema(const std::string& name);

// A Slurm job-array script on stdout that runs the suite in shards, saves before the time limit and
// puts itself back in the queue.
ExitCode PrintSlurmScript(const SlurmOptions& options);

ExitCode PrintVersion(bool json);

}  // namespace mixerbench::harness
