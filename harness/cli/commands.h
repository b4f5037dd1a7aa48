// The commands behind the command line. Those that need no torch are functions here; the engine's
// are handed in, so that the front program can start another process for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/cli/compare_options.h"
#include "harness/cli/slurm_options.h"
#include "harness/dataset/options.h"
#include "harness/device/health_check.h"
#include "harness/interop/options.h"
#include "harness/run/options.h"
#include "harness/suite/overrides.h"
#include "tasks/generate.h"

namespace mixerbench::harness {

// What needs libtorch.
struct EngineCommands {
  std::function<ExitCode(const RunOptions&)> run;
  std::function<ExitCode(const ReproOptions&)> repro;
  std::function<ExitCode(const std::string& file, const SuiteOverrides&)> validate_suite;
  // Throws what `run` would throw of a suite's text with these settings.
  std::function<void(const std::string& text, const SuiteOverrides&)> check_suite;
  std::function<ExitCode(const std::string& kind, bool json)> list;  // mixers, cores, backbones
  std::function<ExitCode(const std::string& kind, const std::string& name, bool json)> describe;
  std::function<ExitCode(const GenerateOptions&)> generate_on_device;
  std::function<ExitCode(const UnitRunOptions&)> mixer_run;
  std::function<ExitCode(const UnitRunOptions&)> core_run;
  std::function<ExitCode(const MixerCheckOptions&)> mixer_check;
  std::function<ExitCode(const std::string&)> print_form_schema;  // "config" or "collection"
  // Of `doctor`; waits first, that many seconds, where that is asked for.
  std::function<std::vector<HealthCheck>(const std::string& device,
                                         std::optional<double> wait_idle_s)>
      check;
  std::function<int(const WorkerOptions&)> worker;
};

// --- commands without torch --------------------------------------------------------------------

ExitCode ListTasks(bool json);
ExitCode ListPresets(bool json);
ExitCode ListSuites(bool json);
ExitCode ListCollections(bool json);
ExitCode ListMetrics(bool json);
ExitCode DescribeTask(const std::string& name, bool json);
ExitCode DescribePreset(const std::string& name, bool json);

// Writes samples as JSONL, .npy or safetensors, with a manifest beside files.
ExitCode Generate(const GenerateOptions& options, const tasks::BatchGenerator& generate);

// Writes the prompts of a text task as JSON lines, with a manifest beside files.
ExitCode Export(const ExportOptions& options);

// Prints what responses to an export score, with intervals.
ExitCode ScorePredictions(const ScoreOptions& options);

// Makes what a manifest lists again, or what a task's presets stand for twice over, and compares;
// counts repeated samples and those shared between splits; holds labels against the oracle and
// guessing against the declared chance. kNo when anything differs.
ExitCode Verify(const VerifyOptions& options);

struct ReportOptions {
  std::vector<std::string> outs;  // run folders, report.json files, folders of several
  std::string format = "md";
  VerdictOutputs outputs;
};

// Report of the cells of all of `outs`, or the score of a collection's folder that states one
// (json, md, html), in one format on stdout: json, md, html, csv, csv-cells, csv-groups,
// csv-curves, csv-timings, csv-taps, gbench, mllog.
ExitCode Report(const ReportOptions& options);

// Cells of a run folder, or of each run folder in a folder of several: states, progress, reasons,
// what the same command would run. Reads alone, so a run may be going on.
ExitCode Status(const std::string& out, bool json);

struct LeaderboardOptions {
  std::vector<std::string> outs;  // run folders, report.json files, folders of several
  std::string format = "md";      // md, html, json
  int min_seeds = 5;
};

// Ranks the mixers of several runs on stdout; what is refused, with the reason, on stderr too.
ExitCode Leaderboard(const LeaderboardOptions& options);

// Regression gate: what NEW lost of BASE, as a table and in whatever forms were asked for. kNo,
// kInconclusive or kMissing as docs/GATE.md says.
ExitCode Compare(const CompareOptions& options);

struct ValidateOptions {
  std::vector<std::string> files;  // or names of built-in suites; with `is_deep` run folders too
  SuiteOverrides overrides;
  bool is_deep = false;  // recompute every aggregate from what it is made of
};
using SuiteValidator = std::function<ExitCode(const std::string& file, const SuiteOverrides&)>;

// Whether files have the form that they should: results, data sets' manifests, files of items and,
// by `validate_suite`, suites. Of one file throws Error with what is wrong; of several says it for
// each and returns the code that comes first (base/error.h).
ExitCode Validate(const ValidateOptions& options, const SuiteValidator& validate_suite);

// "report", "cell", "leaderboard" or "score": the JSON Schema on stdout.
ExitCode PrintSchema(const std::string& name);

// The words behind the program's name that a task of the job array starts it with.
std::vector<std::string> RunWords(const SlurmOptions& options, const std::string& shard);

// A Slurm job-array script on stdout that runs the suite in shards, saves before the time limit and
// puts itself back in the queue.
ExitCode PrintSlurmScript(const SlurmOptions& options);

ExitCode PrintVersion(bool json);

struct DoctorOptions {
  std::string out = "out";            // where runs will write
  std::string device = "auto";        // of runs
  std::optional<double> wait_idle_s;  // until the GPU is idle
  bool json = false;
  bool engine_only = false;  // only what the engine looks at, as JSON: the front asks for it
};

// Whether this machine is fit for runs, a line for everything looked at. kEnvironment when not.
ExitCode Doctor(const DoctorOptions& options, const EngineCommands& engine);

}  // namespace mixerbench::harness
