// Hands cells to worker processes and takes back their results.
//
// One worker process serves one device and works on several cells at once, each in a thread of its
// own. A worker that dies or hangs is replaced. The cell that a lone worker died of gets the blame;
// when several shared it, nobody knows, so each is tried again alone. So is a cell that ran out of
// memory beside others: on the CPU, beside those of other workers too. A training that does not fit
// alone either may be tried with smaller batches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/device_time.h"
#include "harness/run/eta.h"
#include "harness/run/log_file.h"
#include "harness/run/options.h"
#include "harness/run/progress_line.h"
#include "harness/run/run_folder.h"
#include "harness/run/worker_process.h"
#include "harness/suite/cell.h"
#include "reports/result/result.h"
#include "tasks/task.h"

namespace mixerbench::harness {

struct SchedulerOptions {
  std::vector<std::string> devices;   // a worker process for each: {"cpu", "cpu"}, {"cuda:0"}
  std::int64_t cells_per_worker = 1;  // at once
  CellOptions cell;
  double stall_timeout_s = 0;  // without a sign of life from a cell; 0: none
  // At its end what runs is stopped; 0: there is none.
  double time_limit_s = 0;
  std::chrono::steady_clock::time_point time_limit_start = {};
  // Once devices have worked in the folder for so long, over all runs, no cell begins.
  std::optional<double> max_device_s = std::nullopt;
  RetryPolicy retry = RetryPolicy::kNone;
  OnOom on_oom = OnOom::kFail;
  bool quiet = false;
  LogFile* log = nullptr;
  std::vector<std::string> worker_command = {"/proc/self/exe"};
};

enum class RunEnd {
  kFinished,
  kStopped,     // by SIGINT, SIGTERM, SIGUSR1, SIGHUP or the time limit
  kBudgetUsed,  // cells are left that may not begin
};

// May a finished result stand under this policy? One that --require-device-cores or
// --deterministic strict refused stands while that is asked for; one of a training without items
// does not when they are, and one that was not made in strict mode does not when that is.
bool Reusable(const reports::CellResult& result, RetryPolicy retry, const CellOptions& options);

class Scheduler {
 public:
  // Works on `pending`, indices of `cells`, and fills `results` in.
  Scheduler(SchedulerOptions options, const tasks::TaskRegistry& tasks, const RunFolder& folder,
            const std::vector<Cell>& cells, const std::vector<std::size_t>& pending,
            std::vector<std::optional<reports::CellResult>>& results);

  // Of workers of a run that is stopped is asked to save what they have, and they have some seconds
  // to do so; the second SIGINT ends the process at once. Under a time limit it also ends when no
  // cell that is left can end in time. Cells that run when the budget is used up go on to their
  // end. Throws Error when results cannot be written or read, with the workers stopped as well.
  RunEnd Run();

 private:
  using Clock = std::chrono::steady_clock;

  // A cell that a worker works on.
  struct Running {
    std::size_t cell = 0;
    CellLock lock;
    Clock::time_point started, last_message;
    bool shared = false;   // another cell was in the same process meanwhile
    bool crowded = false;  // another process of ours used the machine's memory meanwhile
    std::string progress = "";
    double share_done = 0;  // of its steps
    // When its first message came, and its share then.
    std::optional<std::pair<Clock::time_point, double>> first_progress = std::nullopt;
  };

  struct Worker {
    std::string device;
    std::unique_ptr<WorkerProcess> process;  // started with the first cell
    std::vector<Running> running;
    Object python = {};  // code of the classes in Python of its last cell
  };

  RunEnd RunCells();
  bool Done() const;
  bool BudgetIsUsed() const;
  std::size_t CountBusyWorkers() const;
  // Since it was last noted. Throws Error(kOutput) when it cannot be and a budget needs it.
  void NoteDeviceTime(std::size_t num_busy);
  // Infinite without a limit.
  double TimeToLimit() const;
  bool EndsTooLate(std::size_t cell) const;
  bool OnlyLateCellsAreLeft() const;
  // Its training is still to be done or to end.
  bool WaitsForTraining(const Cell& cell) const;
  // The result of a training that leaves no weights for this cell; nullptr when there is none.
  const reports::CellResult* FindFailedTraining(const Cell& cell) const;
  // A training runs again when its weights are gone and cells of this run need them.
  bool MayStand(const Cell& cell, const reports::CellResult& result) const;
  void Assign(Worker& worker);
  bool Fits(const Worker& worker, std::size_t cell) const;
  std::size_t CountRunning() const;
  void Start(Worker& worker, std::size_t cell, CellLock lock);
  std::vector<std::string> WorkerArguments(const std::string& device) const;
  void Wait();
  void ReadMessages(Worker& worker);
  void HandleMessage(Worker& worker, const std::string& line);
  static void TakeProgress(Running& running, const std::string& text);
  void CheckTimes(Worker& worker);
  // Of a worker that has closed its output: once it has ended, or was ended for not doing so.
  void CheckEnd(Worker& worker);
  // After the end of its process: cells that shared it go back to the queue, a lone one failed.
  void HandleExit(Worker& worker, const WorkerProcess::End& end);
  std::string PlaceOf(const Running& running) const;
  static std::vector<Running> TakeAll(Worker& worker);
  // Takes the result that the worker left, or makes one that says why there is none.
  void Collect(Running running, reports::CellState state, const std::string& reason);
  void Requeue(Running running);
  // True when the cell ran out of memory beside others: it is in the queue again.
  bool TryAlone(Running& running);
  // True when its training did not fit by itself either, and is in the queue again with half the
  // batch size. `result` may be nullptr: the system ended its worker.
  bool TryHalved(Running& running, const reports::CellResult* result);
  std::int64_t BatchSizeOf(std::size_t cell) const;
  static reports::CellResult FitsNowhere(const Cell& cell, const reports::CellResult& last);
  void Write(const Cell& cell, reports::CellResult& result) const;
  void Finish(std::size_t cell, reports::CellResult result);
  void StopWorkers();
  std::string Status() const;
  Eta::Left TimeLeft() const;

  SchedulerOptions options_;
  const tasks::TaskRegistry& tasks_;
  const RunFolder& folder_;
  const std::vector<Cell>& cells_;
  std::deque<std::size_t> pending_;
  std::set<std::size_t> alone_;                 // cells that share a process with no other
  std::set<std::size_t> solitary_;              // cells beside which no other runs in any process
  std::map<std::size_t, std::int64_t> halved_;  // batch sizes of cells that needed a smaller one
  // By id: those that are pending or running, and those that cells of this run use.
  std::multiset<std::string> open_trainings_;
  std::set<std::string> used_trainings_;
  std::vector<std::optional<reports::CellResult>>& results_;
  ProgressLine line_;
  std::vector<Worker> workers_;
  std::size_t num_pending_ = 0;
  std::size_t num_finished_ = 0;
  bool has_started_ = false;  // any cell
  bool lacks_locks_ = false;  // and it was said
  bool lacks_notes_ = false;  // of the device time, likewise
  DeviceTime device_time_;
  Clock::time_point noted_until_ = Clock::now();
  Eta eta_;
};

}  // namespace mixerbench::harness
