// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <utility>

#include "harness/cli/command.h"
#include "harness/cli/standard_input.h"
#include "harness/cli/values.h"
#include "harness/suite/suite_text.h"

namespace mixerbench::harness::cli {
namespace {

// Options of `run` whose text is not yet a value.
struct RunValues {
  RunOptions options;
  std::vector<std::string> what;  // a suite, or "collection" and a collection
  std::vector<std::string> set;
  std::string seeds, shard, retry, plan;
  std::string keep_weights = "final";
  std::string deterministic = "warn";
  std::string on_oom = "fail";
  std::string fail_on;
  std::optional<double> max_gpu_hours;
  bool fresh = false;
};

void AddSmoke(CLI::App* command, bool& smoke) {
  command->add_flag("--smoke", smoke, "the reduced form that the suite has: does everything run?");
}

// What a suite is changed by before its cells are planned.
void AddOverrides(CLI::App* command, RunValues& values) {
  AddSmoke(command, values.options.overrides.smoke);
  AddSet(command, values.set, "change a value by its dotted path; commas make a sweep");
  command
      ->add_option("--add-mixer,--mixer", values.options.overrides.add_mixers,
                   "one more mixer beside those of the suite: JSON, its name, or FILE.py:Class")
      ->allow_extra_args(false)
      ->type_name("MIXER");
  command->add_option("--seeds", values.seeds, "a number of seeds, or a list such as 1,2,7");
  command
      ->add_option("--limit", values.options.overrides.limit,
                   "at most N examples per evaluation; marks the report partial")
      ->check(AtLeast(1));
}

void AddPlaces(CLI::App* command, RunValues& values) {
  RunOptions& options = values.options;
  command->add_option("-o,--out", options.out, "output folder, default out/<suite name>")
      ->envname("MIXERBENCH_OUT");
  command->add_option("--device", options.device, "cpu, cuda[:i] or auto")
      ->envname("MIXERBENCH_DEVICE");
  command->add_option("--gpus", options.gpus, "all, or a list such as 0,2: cells on each of them");
  command
      ->add_option("--jobs", options.jobs,
                   "cells at once, on each GPU; default one per core, 4 on a GPU")
      ->check(Between(1, 1024));
  command->add_option("--shard", values.shard,
                      "I/N: part I (from 0) of N of the cells; slurm: by the array task");
}

void AddLimitsOfCells(CLI::App* command, RunValues& values) {
  RunOptions& options = values.options;
  command->add_option("--time-limit", options.time_limit_s, "for the whole run, such as 3h")
      ->transform(AtLeastSeconds(1e-9))
      ->type_name("TIME");
  command
      ->add_option("--max-gpu-hours", values.max_gpu_hours,
                   "hours of device time, over all runs in the folder: then no cell begins")
      ->check(AboveZero("hours"))
      ->type_name("HOURS");
  command
      ->add_option("--deterministic", values.deterministic,
                   "strict: a cell that cannot be repeated bit by bit is unsupported; warn")
      ->check(CLI::IsMember({"strict", "warn"}))
      ->capture_default_str();
  command
      ->add_option("--on-oom", values.on_oom,
                   "a training step that does not fit in memory: fail, or halve the batch size")
      ->check(CLI::IsMember({"fail", "halve"}))
      ->capture_default_str();
  command->add_option("--cell-timeout", options.cell.timeout_s, "for one cell, such as 20m")
      ->transform(AtLeastSeconds(1e-9))
      ->type_name("TIME");
  command
      ->add_option("--checkpoint-interval", options.cell.checkpoint_interval_s,
                   "seconds between checkpoints inside a cell; 0: none")
      ->transform(AtLeastSeconds(0))
      ->type_name("TIME")
      ->capture_default_str();
  command
      ->add_option(
          "--keep-weights", values.keep_weights,
          "final: what is evaluated later needs no training again; none: not after the run")
      ->check(CLI::IsMember({"none", "final"}))
      ->capture_default_str();
  command
      ->add_option("--weights-limit", options.cell.weights_limit_mib,
                   "MiB; larger final weights are not kept")
      ->check(Between(1, std::int64_t{1} << 14))
      ->capture_default_str();
  command
      ->add_option("--log-items", options.cell.log_items,
                   "jsonl or zstd: every scored position of the test segments, a line each")
      ->check(CLI::IsMember({"jsonl", "zstd"}));
  command->add_flag("!--no-graph", options.cell.use_graphs,
                    "operation by operation on a GPU, without CUDA graphs: the same bits");
  command->add_flag("--require-device-cores", options.cell.require_device_cores,
                    "a cell whose recurrence has no device code for its sizes is unsupported");
  command
      ->add_option("--stall-timeout", options.stall_timeout_s,
                   "seconds without a sign of life before a cell is given up; 0: wait for ever")
      ->transform(AtLeastSeconds(0))
      ->type_name("TIME")
      ->capture_default_str();
}

// Of the ends that a run may fail for, those that --fail-on does not name.
std::set<ExitCode> OtherThan(const std::string& fail_on) {
  const std::map<std::string, ExitCode> ends = {{"empty", ExitCode::kNothingSelected},
                                                {"failed", ExitCode::kCellsFailed},
                                                {"missing", ExitCode::kMissing}};
  std::vector<std::string> known;
  for (const auto& [name, code] : ends) known.push_back(name);
  std::set<ExitCode> others;
  for (const auto& [name, code] : ends) others.insert(code);
  for (const std::string& name : ParseFailOn(fail_on, known)) others.erase(ends.at(name));
  return others;
}

void AddRun(const Parser& parser, const char* name, const char* help, bool throughput_only) {
  const auto values = std::make_shared<RunValues>();
  RunOptions& options = values->options;
  options.throughput_only = throughput_only;
  auto* command = parser.app.add_subcommand(name, help);
  command
      ->add_option("suite", values->what,
                   "built-in suite or suite file, - for standard input; or `collection` and a "
                   "collection or its file")
      ->required()
      ->transform(FileOrStandardInput())
      ->expected(1, 2)
      ->type_name("SUITE");
  AddPlaces(command, *values);
  AddOverrides(command, *values);
  AddLimitsOfCells(command, *values);
  auto* fresh = command->add_flag("--fresh", values->fresh, "run finished cells again");
  command->add_option("--retry", values->retry, "which finished cells run again: failed")
      ->check(CLI::IsMember({"failed"}))
      ->excludes(fresh);
  command
      ->add_option("--plan", values->plan,
                   "when the folder is for other cells: merge both, or replace what it was for")
      ->check(CLI::IsMember({"merge", "replace"}));
  auto* dry_run = command->add_flag("-n,--dry-run", options.dry_run, "print the plan and stop");
  AddVerdictOutputs(command, options.outputs, "the report as JSON on stdout");
  for (const char* file : {"--html", "--junit", "--github-summary"}) {
    command->get_option(file)->excludes(dry_run);
  }
  command->add_option("--fail-on", values->fail_on,
                      "which of failed (cells), missing and empty fail, separated by commas; none "
                      "when it is empty, all by default");
  command->add_flag("-q,--quiet", options.quiet, "no progress");
  command->add_option("--log-file", options.log_file,
                      "append what is said on stderr, with times, and progress despite -q");
  parser.WhenChosen(command, [values, command, &engine = parser.engine] {
    RunOptions& chosen = values->options;
    FindJobSummary(*command, chosen.outputs);
    chosen.suite = values->what.back();
    chosen.is_collection = values->what.size() == 2;
    if (values->what == std::vector<std::string>{"collection"}) {
      throw ConfigError("",
                        "which collection? Give its name after the word, or its file; `list "
                        "collections` has the names");
    }
    if (chosen.is_collection && values->what.front() != "collection") {
      throw ConfigError("", "one suite at a time, not '" + values->what.front() + "' and '" +
                                chosen.suite + "'; several in one file are a collection");
    }
    chosen.overrides.set = ParseSettings(values->set);
    chosen.overrides.seeds = ParseSeeds(values->seeds);
    chosen.shard = ParseShard(values->shard);
    if (values->keep_weights == "none") chosen.cell.weights_limit_mib = 0;
    chosen.cell.is_strict = values->deterministic == "strict";
    if (values->on_oom == "halve") chosen.on_oom = OnOom::kHalve;
    if (values->max_gpu_hours) chosen.max_device_s = *values->max_gpu_hours * 3600;
    if (command->count("--fail-on") > 0) chosen.let_pass = OtherThan(values->fail_on);
    if (values->fresh) chosen.retry = RetryPolicy::kAll;
    if (!values->retry.empty()) chosen.retry = RetryPolicy::kFailed;
    if (!values->plan.empty()) {
      chosen.plan = values->plan == "merge" ? PlanPolicy::kMerge : PlanPolicy::kReplace;
    }
    return engine.run(chosen);
  });
}

void AddValidate(const Parser& parser) {
  struct Values {
    ValidateOptions options;
    std::vector<std::string> set;
  };
  const auto values = std::make_shared<Values>();
  auto* command = parser.app.add_subcommand(
      "validate", "Check suites, collections, reports, cells' results or manifests");
  command
      ->add_option("file", values->options.files,
                   "files, - for standard input, or names of built-in suites")
      ->required()
      ->transform(FileOrStandardInput());
  AddSet(command, values->set, "change a value of a suite by its dotted path");
  AddSmoke(command, values->options.overrides.smoke);
  command
      ->add_flag("--deep", values->options.is_deep,
                 "of a run folder or report.json: recompute every aggregate")
      ->excludes("--set")
      ->excludes("--smoke");
  parser.WhenChosen(command, [values, &engine = parser.engine] {
    values->options.overrides.set = ParseSettings(values->set);
    return Validate(values->options, engine.validate_suite);
  });
}

// Throws what the tasks would throw of their words: a suite that is not there, an option that the
// script gives already or that `run` has not, a setting that the suite has not.
void CheckTask(const SlurmOptions& options, const EngineCommands& program) {
  const std::string suite = ReadSuiteText(options.suite);
  CLI::App app;
  EngineCommands engine;
  engine.run = [&](const RunOptions& run) {
    if (run.dry_run) throw ConfigError("after --: --dry-run", "the tasks would run nothing");
    SuiteOverrides overrides = run.overrides;
    if (!run.gpus.empty() || run.device.starts_with("cuda")) overrides.device_type = "cuda";
    program.check_suite(suite, overrides);
    return ExitCode::kOk;
  };
  std::function<int()> action;
  AddRun({app, engine, action}, "run", "", false);
  std::vector<std::string> words = RunWords(options, "0/1");  // no task's place is known here
  std::reverse(words.begin(), words.end());                   // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw ConfigError("", "after --: " + UsageFault(app, error) +
                              "; the script gives `run` --out, --shard and, with GPUs, --gpus");
  }
  action();
}

// As sbatch takes it: minutes, with hours, days and seconds in their places, or no limit.
CLI::Validator SlurmTime() {
  return {[](const std::string& text) -> std::string {
            static const std::regex form(R"(\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|UNLIMITED)");
            if (std::regex_match(text, form)) return "";
            return "expected a time such as 30, 4:00:00 or 2-12";
          },
          "TIME"};
}

void AddSlurm(const Parser& parser) {
  const auto options = std::make_shared<SlurmOptions>();
  auto* command = parser.app.add_subcommand("slurm", "Print a Slurm job-array script for a suite");
  command->add_option("suite", options->suite, "built-in suite or suite file")->required();
  command->add_option("-o,--out", options->out, "output folder that all tasks share")->required();
  command->add_option("--tasks", options->num_tasks, "tasks of the array")
      ->required()
      ->check(Between(1, 100'000));
  command->add_option("--max-running", options->max_running, "tasks at the same time")
      ->check(AtLeast(1));
  command->add_option("--time", options->time, "limit of one task, such as 4:00:00")
      ->check(SlurmTime());
  command->add_option("--warn", options->warn_s, "seconds before the limit for saving")
      ->check(AtLeast(1))
      ->capture_default_str();
  command->add_option("--gpus-per-task", options->gpus_per_task, "0: on the CPU")
      ->check(AtLeast(0))
      ->capture_default_str();
  command->add_option("--cpus-per-task", options->cpus_per_task, "cores of one task")
      ->check(AtLeast(1))
      ->capture_default_str();
  command->add_option("--program", options->program, "what to start; default ./mixerbench");
  command
      ->add_option("--sbatch", options->sbatch, "another line for sbatch, such as --partition=gpu")
      ->allow_extra_args(false);
  command->add_option("run_arguments", options->run_arguments, "after --: more options of `run`");
  parser.WhenChosen(command, [options, &engine = parser.engine] {
    CheckTask(*options, engine);
    return PrintSlurmScript(*options);
  });
}

void AddReport(const Parser& parser) {
  const auto options = std::make_shared<ReportOptions>();
  auto* command = parser.app.add_subcommand("report", "Print the report of run folders");
  command
      ->add_option("out", options->outs,
                   "output folders of runs or report.json files, read as one; - is standard input")
      ->required()
      ->transform(FileOrStandardInput());
  auto* format =
      command
          ->add_option("--format", options->format,
                       "json, md, html, csv, csv-cells, csv-groups, csv-curves, csv-timings, "
                       "csv-taps, gbench "
                       "or mllog")
          ->check(CLI::IsMember({"json", "md", "html", "csv", "csv-cells", "csv-groups",
                                 "csv-curves", "csv-timings", "csv-taps", "gbench", "mllog"}));
  AddVerdictOutputs(command, options->outputs, "as --format json");
  command->get_option("--json")->excludes(format);
  parser.WhenChosen(command, [command, options] {
    FindJobSummary(*command, options->outputs);
    return Report(*options);
  });
}

void AddLeaderboard(const Parser& parser) {
  const auto options = std::make_shared<LeaderboardOptions>();
  auto* command = parser.app.add_subcommand("leaderboard", "Rank the mixers of several runs");
  command
      ->add_option("out", options->outs,
                   "run folders, reports (- is standard input), or folders of several")
      ->required()
      ->transform(FileOrStandardInput());
  command->add_option("--format", options->format, "md, html or json")
      ->check(CLI::IsMember({"md", "html", "json"}));
  command->add_option("--min-seeds", options->min_seeds, "fewer are listed, not ranked")
      ->check(Between(2, 10'000))
      ->capture_default_str();
  parser.WhenChosen(command, [options] { return Leaderboard(*options); });
}

// Started by `run`, shown to nobody.
void AddWorker(const Parser& parser) {
  const auto options = std::make_shared<WorkerOptions>();
  auto* command = parser.app.add_subcommand("worker", "")->group("");
  command->add_option("--device", options->device)->required();
  command->add_option("--cells", options->cells)->required();
  command->add_option("--log-file", options->log_file);
  command->add_option("--cell-timeout", options->cell.timeout_s);
  command->add_option("--checkpoint-interval", options->cell.checkpoint_interval_s);
  command->add_option("--weights-limit", options->cell.weights_limit_mib);
  command->add_flag("--keep-weights-for-run", options->cell.keeps_weights_for_run);
  command->add_option("--log-items", options->cell.log_items);
  command->add_flag("!--no-graph", options->cell.use_graphs);
  command->add_flag("--require-device-cores", options->cell.require_device_cores);
  const auto mode = std::make_shared<std::string>("warn");
  command->add_option("--deterministic", *mode);
  parser.WhenChosen(command, [options, mode, &engine = parser.engine] {
    options->cell.is_strict = *mode == "strict";
    return engine.worker(*options);
  });
}

}  // namespace

void AddRunCommands(const Parser& parser) {
  AddRun(parser, "run", "Train and score every cell of a suite; resumes by default", false);
  AddRun(parser, "bench", "Measure the speed curves of a suite's throughput section", true);
  AddReport(parser);
  AddLeaderboard(parser);
  AddValidate(parser);
  AddSlurm(parser);
  AddWorker(parser);
}

}  // namespace mixerbench::harness::cli
