// `slurm`: prints a job-array script that runs a suite in shards. It submits nothing.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "harness/cli/commands.h"

namespace mixerbench::harness {
namespace {

// One word of a shell script, whatever is in it.
std::string Quote(const std::string& word) {
  if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789_-+=./:,@%") == std::string::npos) {
    return word;
  }
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string Directive(const std::string& option) { return "#SBATCH " + option + "\n"; }

// The program that the user started, which lies beside the engine.
std::filesystem::path FrontProgram() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "mixerbench";
}

// Text of one line in the script's head, where nothing can be quoted.
void RequirePlain(const std::string& flag, const std::string& text) {
  if (text.find_first_of("\n\r") == std::string::npos) return;
  throw ConfigError(flag, "must be one line");
}

}  // namespace

std::vector<std::string> RunWords(const SlurmOptions& options, const std::string& shard) {
  std::vector<std::string> words = {"run",     options.suite,
                                    "--out",   std::filesystem::absolute(options.out).string(),
                                    "--shard", shard};
  if (options.gpus_per_task > 0) words.insert(words.end(), {"--gpus", "all"});
  words.insert(words.end(), options.run_arguments.begin(), options.run_arguments.end());
  return words;
}

ExitCode PrintSlurmScript(const SlurmOptions& options) {
  std::string program = options.program;
  if (program.empty()) {
    program = std::filesystem::exists("mixerbench")
                  ? std::filesystem::absolute("mixerbench").string()
                  : FrontProgram().string();
  }
  std::string run = Quote(program);
  for (const std::string& word : RunWords(options, "slurm")) run += " " + Quote(word);

  std::string array = "0-" + std::to_string(options.num_tasks - 1);
  if (options.max_running > 0) array += "%" + std::to_string(options.max_running);
  std::string head = "#!/bin/bash\n" + Directive("--job-name=mixerbench") +
                     Directive("--array=" + array) + Directive("--requeue") +
                     Directive("--open-mode=append") + Directive("--output=slurm-%x-%A_%a.out") +
                     Directive("--signal=B:USR1@" + std::to_string(options.warn_s));
  if (!options.time.empty()) head += Directive("--time=" + options.time);
  if (options.gpus_per_task > 0) {
    head += Directive("--gpus-per-task=" + std::to_string(options.gpus_per_task));
  }
  head += Directive("--ntasks=1") +
          Directive("--cpus-per-task=" + std::to_string(options.cpus_per_task));
  for (const std::string& option : options.sbatch) {
    RequirePlain("--sbatch", option);
    head += Directive(option);
  }
  RequirePlain("--time", options.time);

  std::cout << head << R"(
# Slurm warns this shell before the time limit or a preemption. The program then saves its work and
# exits with 75, and the task goes back to the queue; finished cells are never run again.
cd -- )" << Quote(std::filesystem::current_path().string())
            << " || exit\n"
            << run << R"( &
program=$!
trap 'kill -USR1 "$program" 2>/dev/null' USR1 TERM
wait "$program"
status=$?
while kill -0 "$program" 2>/dev/null; do  # a signal ended the wait, not the program
  wait "$program"
  status=$?
done
if ((status == 75)); then
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
fi
exit "$status"
)";
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
