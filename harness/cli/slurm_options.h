// What `slurm` is asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mixerbench::harness {

struct SlurmOptions {
  std::string suite;
  std::string out;
  std::string program;  // "": ./mixerbench of this folder, else this program
  std::int64_t num_tasks = 0;
  std::int64_t max_running = 0;  // at the same time; 0: Slurm decides
  std::int64_t gpus_per_task = 1;
  std::int64_t cpus_per_task = 2;
  std::int64_t warn_s = 120;  // before the time limit
  std::string time;           // of one task, as sbatch takes it
  std::vector<std::string> sbatch, run_arguments;
};

}  // namespace mixerbench::harness
