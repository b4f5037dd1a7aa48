// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>

#include "harness/commands.h"
#include "harness/dataset_files.h"
#include "harness/version.h"
#include "reports/json.h"

namespace mixerbench::harness {
namespace {

// "a.b=1" pairs as the user gave them.
Settings ParseSettings(const std::vector<std::string>& texts) {
  Settings settings;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw ConfigError("--set " + text, "expected path=value, such as train.lr=0.003");
    }
    settings.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return settings;
}

std::int64_t ParseCount(const std::string& text, const std::string& where) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != text.npos) {
    throw ConfigError(where, "expected a whole number, got '" + text + "'");
  }
  return std::stoll(text);
}

// "5": seeds 0..4. "1,2,7" or "7,": those.
std::vector<std::uint64_t> ParseSeeds(const std::string& text) {
  std::vector<std::uint64_t> seeds;
  if (text.empty()) return seeds;
  if (text.find(',') == std::string::npos) {
    const std::int64_t count = ParseCount(text, "--seeds");
    if (count < 1 || count > 10'000) throw ConfigError("--seeds", "must be in 1..10000");
    for (std::int64_t i = 0; i < count; ++i) seeds.push_back(static_cast<std::uint64_t>(i));
    return seeds;
  }
  std::stringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    if (!item.empty()) seeds.push_back(static_cast<std::uint64_t>(ParseCount(item, "--seeds")));
  }
  return seeds;
}

std::uint64_t ReadCountVariable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) {
    throw ConfigError("--shard slurm", std::string(name) +
                                           " is not set: this is no task of a "
                                           "Slurm job array; give I/N instead");
  }
  return static_cast<std::uint64_t>(ParseCount(text, name));
}

// "2/8", or "slurm" for the place of this task in its job array.
Shard ParseShard(const std::string& text) {
  if (text.empty()) return {};
  Shard shard;
  if (text == "slurm") {
    shard.index =
        ReadCountVariable("SLURM_ARRAY_TASK_ID") - ReadCountVariable("SLURM_ARRAY_TASK_MIN");
    shard.count = ReadCountVariable("SLURM_ARRAY_TASK_COUNT");
  } else {
    const std::size_t slash = text.find('/');
    if (slash == std::string::npos)
      throw ConfigError("--shard " + text, "expected I/N, such as 0/4");
    shard.index = static_cast<std::uint64_t>(ParseCount(text.substr(0, slash), "--shard " + text));
    shard.count = static_cast<std::uint64_t>(ParseCount(text.substr(slash + 1), "--shard " + text));
  }
  if (shard.index >= shard.count) {
    throw ConfigError(
        "--shard " + text,
        "part " + std::to_string(shard.index) + " of " + std::to_string(shard.count) +
            " does not exist; parts count from 0 and array indices must be consecutive");
  }
  return shard;
}

// Options of one command and what to do when it was chosen.
class CommandLine {
 public:
  explicit CommandLine(const EngineCommands& engine) : engine_(engine) {
    app_.require_subcommand(1);
    app_.fallthrough(false);
    AddList();
    AddDescribe();
    AddGenerate();
    AddVerify();
    AddExport();
    AddScore();
    AddValidate();
    AddRun("run", "Train and score every cell of a suite; resumes by default", false);
    AddRun("bench", "Measure the speed curves of a suite's throughput section", true);
    AddSlurm();
    AddReport();
    AddUnit("mixer", "Run one mixer on given weights and inputs", engine_.mixer_run);
    AddUnit("core", "Run one core (recurrence) on given tensors", engine_.core_run);
    AddSmallCommands();
  }

  int Parse(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& help) {  // --help
      return app_.exit(help);
    } catch (const CLI::ParseError& error) {
      const std::string text = error.what();
      std::cerr << "error: " << text.substr(0, text.find('\n')) << "; see mixerbench --help\n";
      return static_cast<int>(ExitCode::kUsage);
    }
    return action_();
  }

 private:
  template <typename Action>
  void Do(CLI::App* command, Action action) {
    command->callback(
        [this, action] { action_ = [action] { return static_cast<int>(action()); }; });
  }

  void AddList() {
    auto* command = app_.add_subcommand("list", "Names of tasks, presets, suites, mixers, ...");
    command->add_option("kind", kind_, "what to list")
        ->required()
        ->check(CLI::IsMember({"tasks", "presets", "suites", "mixers", "cores", "backbones"}));
    command->add_flag("--json", json_, "JSON on stdout");
    Do(command, [this] {
      if (kind_ == "tasks") return ListTasks(json_);
      if (kind_ == "presets") return ListPresets(json_);
      if (kind_ == "suites") return ListSuites(json_);
      return engine_.list(kind_, json_);
    });
  }

  void AddDescribe() {
    auto* command = app_.add_subcommand("describe", "Parameters, defaults, chance, sources");
    command->add_option("kind", kind_, "task, mixer, core or backbone")
        ->required()
        ->check(CLI::IsMember({"task", "mixer", "core", "backbone"}));
    command->add_option("name", name_, "its name")->required();
    command->add_flag("--json", json_, "JSON on stdout");
    Do(command, [this] {
      if (kind_ == "task") return DescribeTask(name_, json_);
      return engine_.describe(kind_, name_, json_);
    });
  }

  // What `generate` and its relatives write or check.
  void AddSamples(CLI::App* command, DatasetOptions& samples, const char* what) {
    command->add_option("what", samples.what, what)->required();
    AddSet(command, "option of the task, such as input_seq_len=128");
    command->add_option("--split", samples.split, "train, validation, test or a number >= 16");
    command->add_option("--seed", samples.seed, "default: the preset's, else 0")
        ->check(CLI::NonNegativeNumber);
    command->add_option("--start", samples.start, "index of the first sample");
    command
        ->add_option("--count", samples.count,
                     "number of samples, default the preset's, 1 for a task")
        ->check(CLI::PositiveNumber);
  }

  CLI::Option* AddShards(CLI::App* command, std::int64_t& shards) {
    return command
        ->add_option("--shards", shards, "number of files, OUT-00000-of-0000N; changes no sample")
        ->check(CLI::Range(1, 99'999));
  }

  CLI::Option* AddThreads(CLI::App* command, std::int64_t& threads) {
    return command->add_option("--threads", threads, "default one per core; changes no byte")
        ->check(CLI::Range(1, 1024));
  }

  void AddGenerate() {
    auto* command = app_.add_subcommand("generate", "Write samples of a task or preset");
    AddSamples(command, generate_.samples, "task (mqar) or preset (mqar/fig2-64x4)");
    command->add_option("--labels", generate_.samples.labels, "which positions carry a label")
        ->check(CLI::IsMember({"scored", "all_tokens", "target_only"}));
    command
        ->add_option("--format", generate_.format,
                     "jsonl, npy or safetensors; default by the name of the file")
        ->check(CLI::IsMember({"jsonl", "npy", "safetensors"}));
    command->add_option("--dtype", generate_.dtype, "of npy and safetensors: int32 or int64")
        ->check(CLI::IsMember({"int32", "int64"}));
    auto* out = command->add_option("-o,--out", generate_.out, "file; default stdout (jsonl)");
    AddShards(command, generate_.shards)->needs(out);
    command->add_option("--device", generate_.device, "cpu or cuda[:i]");
    AddThreads(command, generate_.threads);
    Do(command, [this] {
      generate_.samples.set = ParseSettings(set_);
      if (generate_.device != "cpu") return engine_.generate_on_device(generate_);
      return Generate(generate_, CpuGenerator(NumThreads(generate_.threads)));
    });
  }

  void AddExport() {
    auto* command = app_.add_subcommand("export", "Write the prompts of a text task as JSON lines");
    AddSamples(command, export_.samples, "text task (niah) or preset (niah/s1)");
    auto* out = command->add_option("-o,--out", export_.out, "file; default stdout");
    AddShards(command, export_.shards)->needs(out);
    AddThreads(command, export_.threads);
    Do(command, [this] {
      export_.samples.set = ParseSettings(set_);
      return Export(export_);
    });
  }

  void AddScore() {
    auto* command = app_.add_subcommand("score", "Score responses of a model to an export");
    command
        ->add_option("predictions", score_.predictions,
                     "JSON lines with index and pred; several files are runs")
        ->required();
    command->add_option("--references", score_.references, "the export, one for all runs or each")
        ->required();
    command->add_option("--against", score_.against,
                        "predictions of another variant on the same samples");
    command->add_option("--by", score_.by, "member of meta to group by, such as depth");
    command->add_flag("--allow-missing", score_.allow_missing,
                      "a sample without a prediction is wrong, not an error");
    command->add_flag("--json", json_, "JSON on stdout");
    Do(command, [this] {
      score_.json = json_;
      return ScorePredictions(score_);
    });
  }

  void AddVerify() {
    auto* command =
        app_.add_subcommand("verify", "Make a data set again and compare; check its answers");
    command->add_option("what", verify_.what, "manifest, file beside one, task or preset")
        ->required();
    AddSet(command, "option of the task, such as input_seq_len=128");
    command->add_option("--seed", verify_.seed, "default: the preset's, else 0")
        ->check(CLI::NonNegativeNumber);
    command
        ->add_option("--count", verify_.count,
                     "samples of each data set, default at most 10000; not for files")
        ->check(CLI::PositiveNumber);
    AddThreads(command, verify_.threads);
    command->add_flag("--json", json_, "JSON on stdout");
    Do(command, [this] {
      verify_.set = ParseSettings(set_);
      verify_.json = json_;
      return Verify(verify_);
    });
  }

  void AddValidate() {
    auto* command = app_.add_subcommand("validate", "Check a suite, a report or a cell's result");
    command->add_option("file", file_, "file, or the name of a built-in suite")->required();
    AddSet(command, "change a value by its dotted path");
    Do(command, [this] {
      run_.overrides.set = ParseSettings(set_);
      if (ValidateResultFile(file_)) return ExitCode::kOk;
      return engine_.validate_suite(file_, run_.overrides);
    });
  }

  void AddRun(const char* name, const char* help, bool throughput_only) {
    auto* command = app_.add_subcommand(name, help);
    command->add_option("suite", run_.suite, "built-in suite or suite file")->required();
    command->add_option("-o,--out", run_.out, "output folder, default out/<suite name>")
        ->envname("MIXERBENCH_OUT");
    command->add_option("--device", run_.device, "cpu, cuda[:i] or auto")
        ->envname("MIXERBENCH_DEVICE");
    command->add_option("--gpus", run_.gpus, "all, or a list such as 0,2: cells on each of them");
    command
        ->add_option("--jobs", run_.jobs,
                     "cells at once, on each GPU; default one per core, 4 on a GPU")
        ->check(CLI::Range(1, 1024));
    command->add_option("--shard", shard_,
                        "I/N: part I (from 0) of N of the cells; slurm: by the array task");
    AddSet(command, "change a value by its dotted path; commas make a sweep");
    command->add_option("--seeds", seeds_, "a number of seeds, or a list such as 1,2,7");
    command
        ->add_option("--limit", run_.overrides.limit,
                     "at most N examples per evaluation; marks the report partial")
        ->check(CLI::PositiveNumber);
    command->add_option("--cell-timeout", run_.cell.timeout_s, "seconds for one cell")
        ->check(CLI::PositiveNumber);
    command
        ->add_option("--checkpoint-interval", run_.cell.checkpoint_interval_s,
                     "seconds between checkpoints inside a cell; 0: none")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command->add_flag("!--no-graph", run_.cell.use_graphs,
                      "operation by operation on a GPU, without CUDA graphs: the same bits");
    command->add_flag("--require-device-cores", run_.cell.require_device_cores,
                      "a cell whose recurrence has no device code for its sizes is unsupported");
    command
        ->add_option("--stall-timeout", run_.stall_timeout_s,
                     "seconds without a sign of life before a cell is given up; 0: wait for ever")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    auto* fresh = command->add_flag("--fresh", fresh_, "run finished cells again");
    command->add_option("--retry", retry_, "which finished cells run again: failed")
        ->check(CLI::IsMember({"failed"}))
        ->excludes(fresh);
    command
        ->add_option("--plan", plan_,
                     "when the folder is for other cells: merge both, or replace what it was for")
        ->check(CLI::IsMember({"merge", "replace"}));
    command->add_flag("-n,--dry-run", run_.dry_run, "print the plan and stop");
    command->add_flag("-q,--quiet", run_.quiet, "no progress");
    Do(command, [this, throughput_only] {
      run_.throughput_only = throughput_only;
      run_.overrides.set = ParseSettings(set_);
      run_.overrides.seeds = ParseSeeds(seeds_);
      run_.shard = ParseShard(shard_);
      if (fresh_) run_.retry = RetryPolicy::kAll;
      if (!retry_.empty()) run_.retry = RetryPolicy::kFailed;
      if (!plan_.empty()) {
        run_.plan = plan_ == "merge" ? PlanPolicy::kMerge : PlanPolicy::kReplace;
      }
      return engine_.run(run_);
    });
  }

  void AddSlurm() {
    auto* command = app_.add_subcommand("slurm", "Print a Slurm job-array script for a suite");
    command->add_option("suite", slurm_.suite, "built-in suite or suite file")->required();
    command->add_option("-o,--out", slurm_.out, "output folder that all tasks share")->required();
    command->add_option("--tasks", slurm_.num_tasks, "tasks of the array")
        ->required()
        ->check(CLI::Range(1, 100'000));
    command->add_option("--max-running", slurm_.max_running, "tasks at the same time")
        ->check(CLI::PositiveNumber);
    command->add_option("--time", slurm_.time, "limit of one task, such as 4:00:00");
    command->add_option("--warn", slurm_.warn_s, "seconds before the limit for saving")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--gpus-per-task", slurm_.gpus_per_task, "0: on the CPU")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command->add_option("--cpus-per-task", slurm_.cpus_per_task, "cores of one task")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--program", slurm_.program, "what to start; default ./mixerbench");
    command
        ->add_option("--sbatch", slurm_.sbatch, "another line for sbatch, such as --partition=gpu")
        ->allow_extra_args(false);
    command->add_option("run_arguments", slurm_.run_arguments, "after --: more options of `run`");
    Do(command, [this] { return PrintSlurmScript(slurm_); });
  }

  void AddReport() {
    auto* command = app_.add_subcommand("report", "Print the report of a run folder");
    command->add_option("out", file_, "output folder of a run")->required();
    command->add_option("--format", format_, "json, md, html or csv")
        ->check(CLI::IsMember({"json", "md", "html", "csv"}));
    Do(command, [this] { return Report(file_, format_); });
  }

  void AddUnit(const char* kind, const char* help,
               const std::function<ExitCode(const UnitRunOptions&)>& run) {
    auto* group = app_.add_subcommand(kind, help);
    group->require_subcommand(1);
    auto* command = group->add_subcommand("run", help);
    command->add_option("name", unit_.name, "its name")->required();
    auto* describe =
        command->add_flag("--describe", unit_.describe, "list the tensors with their shapes");
    auto* in = command->add_option("--in", unit_.in, "safetensors with inputs and weights");
    auto* out = command->add_option("--out", unit_.out, "safetensors to write");
    in->excludes(describe);
    out->excludes(describe);
    AddSet(command, "option, such as num_heads=4 or d_model=64");
    command->add_option("--path", unit_.path, "fast or reference")
        ->check(CLI::IsMember({"fast", "reference"}));
    command->add_option("--dtype", unit_.dtype, "fp64, fp32, tf32 or bf16")
        ->check(CLI::IsMember({"fp64", "fp32", "tf32", "bf16"}));
    command->add_option("--device", unit_.device, "cpu, cuda[:i] or auto");
    if (std::string(kind) == "mixer") {
      command->add_option("--seed", unit_.seed, "draw weights that the file lacks from this seed")
          ->check(CLI::NonNegativeNumber);
    }
    command->add_flag("--gradients", unit_.gradients, "also gradients of everything, given grad.y");
    command->add_flag("--final-state", unit_.final_state, "also the final state");
    Do(command, [this, run] {
      unit_.set = ParseSettings(set_);
      if (!unit_.describe && (unit_.in.empty() || unit_.out.empty())) {
        throw ConfigError("--in, --out",
                          "name the files to read and write, or ask with --describe");
      }
      return run(unit_);
    });
  }

  void AddSmallCommands() {
    auto* schema = app_.add_subcommand("schema", "Print a JSON Schema");
    schema->add_option("name", name_, "report or cell")
        ->required()
        ->check(CLI::IsMember({"report", "cell"}));
    Do(schema, [this] { return PrintSchema(name_); });

    auto* version = app_.add_subcommand("version", "Versions of this program");
    version->add_flag("--json", json_, "JSON on stdout");
    Do(version, [this] { return PrintVersion(json_); });

    auto* worker = app_.add_subcommand("worker", "")->group("");  // hidden: started by `run`
    worker->add_option("--device", run_.device)->required();
    worker->add_option("--cell-timeout", run_.cell.timeout_s);
    worker->add_option("--checkpoint-interval", run_.cell.checkpoint_interval_s);
    worker->add_flag("!--no-graph", run_.cell.use_graphs);
    worker->add_flag("--require-device-cores", run_.cell.require_device_cores);
    worker->callback(
        [this] { action_ = [this] { return engine_.worker(run_.device, run_.cell); }; });
  }

  void AddSet(CLI::App* command, const char* help) {
    command->add_option("-s,--set", set_, help)->allow_extra_args(false)->type_name("KEY=VALUE");
  }

  const EngineCommands& engine_;
  CLI::App app_{"mixerbench: which sequence mixer remembers, how far, and how fast", "mixerbench"};
  std::function<int()> action_;
  std::string kind_, name_, file_, format_ = "md", seeds_, retry_, plan_, shard_;
  std::vector<std::string> set_;
  bool json_ = false;
  bool fresh_ = false;
  RunOptions run_;
  SlurmOptions slurm_;
  GenerateOptions generate_;
  ExportOptions export_;
  VerifyOptions verify_;
  ScoreOptions score_;
  UnitRunOptions unit_;
};

}  // namespace

int Main(int argc, char** argv, const EngineCommands& engine) {
  try {
    return CommandLine(engine).Parse(argc, argv);
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    const std::string text = error.what();
    std::cerr << "internal error: " << text.substr(0, text.find('\n'))
              << "; this is a bug, please report it\n";
    return static_cast<int>(ExitCode::kInternal);
  }
}

ExitCode PrintVersion(bool json) {
  const Value version = ToolVersion();
  if (json) {
    std::cout << reports::DumpJson(version, 2);
  } else {
    std::cout << "mixerbench " << kVersion << "\n";
  }
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
