// SPDX-License-Identifier: Apache-2.0
#include "harness/run/scheduler.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <poll.h>
#include <thread>
#include <utility>

#include "base/error.h"
#include "harness/device/determinism.h"
#include "harness/device/plans.h"
#include "harness/evaluation/segment_rows.h"
#include "harness/python/watch.h"
#include "harness/run/kept_trainings.h"
#include "harness/run/plan.h"
#include "harness/run/run_plan.h"
#include "harness/run/standing.h"
#include "harness/run/stop_signals.h"
#include "harness/suite/identity.h"
#include "harness/suite/step_count.h"
#include "harness/training/cell_guard.h"
#include "harness/training/weights.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/result/result_json.h"

namespace mixerbench::harness {
namespace {

// A worker that is this late past a cell's time limit, or does not end for so long after it has
// closed its output, hangs: it is killed.
constexpr double kHangGrace_s = 10;
// For saving when the run is stopped; batch systems kill not long after they ask.
constexpr auto kStopGrace = std::chrono::seconds(30);
constexpr int kPollInterval_ms = 200;
constexpr auto kStopPollInterval = std::chrono::milliseconds(20);

// Before the reason of a training, for what should use it.
const std::string kOfTraining = "its training: ";

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// "word rest of the line" -> {word, rest}.
std::pair<std::string, std::string> FirstWord(const std::string& line) {
  const std::size_t space = line.find(' ');
  if (space == std::string::npos) return {line, ""};
  return {line.substr(0, space), line.substr(space + 1)};
}

std::string Number(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// Where its training failed, so has what should use it: reports count both alike.
reports::CellResult ResultWithoutTraining(const Cell& cell, const reports::CellResult& training) {
  reports::CellResult result = ResultOf(cell);
  result.state = training.state;
  result.reason = kOfTraining + training.reason;
  if (training.halved_from) {  // what it left are weights of another training
    result.state = reports::CellState::kOom;
    result.reason = kOfTraining + "no batch of " + std::to_string(*training.halved_from) +
                    " sequences fits in memory";
  }
  result.environment = training.environment;
  return result;
}

// Whether a training that lacked memory did so before the last step of an epoch: after it, batches
// of evaluation lacked it.
bool LackedInTraining(const Cell& cell, std::int64_t batch_size,
                      const reports::CellResult& result) {
  TrainConfig train = cell.train;
  train.batch_size = batch_size;
  const StepCount steps = CountSteps(cell.task, train);
  const std::int64_t num_epochs = std::ssize(result.learning_curve);
  return !result.stopped_early &&
         result.step < std::min((num_epochs + 1) * steps.per_epoch, steps.total);
}

}  // namespace

bool Reusable(const reports::CellResult& result, RetryPolicy retry, const CellOptions& options) {
  if (result.reason.starts_with(kOfTraining)) {  // stands as long as that
    reports::CellResult training = result;
    training.reason.erase(0, kOfTraining.size());
    return Reusable(training, retry, options);
  }
  if (IsRefusedFallback(result) && !options.require_device_cores) return false;
  if (IsStrictRefusal(result) && !options.is_strict) return false;
  const bool has_numbers = result.state == reports::CellState::kCompleted ||
                           result.state == reports::CellState::kDiverged;
  if (options.is_strict && has_numbers && !WasStrict(result)) return false;
  const bool lacks_items = reports::ScoresTests(result) && result.items.empty() &&
                           result.state == reports::CellState::kCompleted;
  if (lacks_items && !options.log_items.empty()) return false;
  return Stands(result, retry);
}

Scheduler::Scheduler(SchedulerOptions options, const tasks::TaskRegistry& tasks,
                     const RunFolder& folder, const std::vector<Cell>& cells,
                     const std::vector<std::size_t>& pending,
                     std::vector<std::optional<reports::CellResult>>& results)
    : options_(std::move(options)),
      tasks_(tasks),
      folder_(folder),
      cells_(cells),
      pending_(pending.begin(), pending.end()),
      results_(results),
      line_(options_.quiet, options_.log),
      num_pending_(pending.size()),
      device_time_(folder.path()),
      eta_(EtaFrom(cells, results, options_.devices.size(), options_.cells_per_worker)) {
  for (const std::string& device : options_.devices) workers_.push_back({device, nullptr, {}});
  for (const std::size_t cell : pending) {
    const CellKind kind = cells_[cell].kind;
    const bool is_timed = kind == CellKind::kThroughput;  // neighbours slow it down
    // What a user's module does, such as waiting for the device to time its kernels, breaks the
    // graph capture of a neighbour in the same process.
    if (is_timed || RunsPython(cells_[cell])) alone_.insert(cell);
    if (kind == CellKind::kTrain) open_trainings_.insert(cells_[cell].training_id);
    if (NamesTraining(kind)) used_trainings_.insert(cells_[cell].training_id);
  }
  options_.cell.keeps_weights_for_run = !used_trainings_.empty();
}

RunEnd Scheduler::Run() {
  try {
    return RunCells();
  } catch (...) {
    StopWorkers();
    throw;
  }
}

RunEnd Scheduler::RunCells() {
  std::signal(SIGPIPE, SIG_IGN);
  while (!StopRequested() && TimeToLimit() > 0) {
    for (Worker& worker : workers_) Assign(worker);
    if (Done()) return RunEnd::kFinished;
    if (BudgetIsUsed() && CountRunning() == 0) return RunEnd::kBudgetUsed;
    if (OnlyLateCellsAreLeft()) break;
    const std::size_t num_busy = CountBusyWorkers();
    Wait();
    NoteDeviceTime(num_busy);
    if (line_.IsDue()) line_.Update(Status());
  }
  if (!StopRequested()) {
    line_.Print("time limit of " + FormatDuration(options_.time_limit_s) + ": " +
                std::to_string(pending_.size() + CountRunning()) + " cells are left");
  }
  StopWorkers();
  return RunEnd::kStopped;
}

bool Scheduler::BudgetIsUsed() const {
  return options_.max_device_s && device_time_.total() >= *options_.max_device_s;
}

// A device counts while it has a cell to work on, however many at once.
std::size_t Scheduler::CountBusyWorkers() const {
  return static_cast<std::size_t>(std::count_if(
      workers_.begin(), workers_.end(), [](const Worker& w) { return !w.running.empty(); }));
}

void Scheduler::NoteDeviceTime(std::size_t num_busy) {
  const auto now = Clock::now();
  try {
    device_time_.Add(static_cast<double>(num_busy) *
                     Seconds(now - std::exchange(noted_until_, now)));
  } catch (const Error& error) {
    if (options_.max_device_s) throw;
    if (!std::exchange(lacks_notes_, true)) {
      line_.Print(std::string("warning: ") + error.what() +
                  "; --max-gpu-hours will not count this run's time");
    }
  }
}

bool Scheduler::Done() const {
  return pending_.empty() && std::all_of(workers_.begin(), workers_.end(),
                                         [](const Worker& w) { return w.running.empty(); });
}

double Scheduler::TimeToLimit() const {
  if (options_.time_limit_s <= 0) return std::numeric_limits<double>::infinity();
  return options_.time_limit_s - Seconds(Clock::now() - options_.time_limit_start);
}

// A cell that takes longer than the whole limit needs several runs anyway, and every run starts at
// least one: else the same command would never finish.
bool Scheduler::EndsTooLate(std::size_t cell) const {
  if (options_.time_limit_s <= 0 || !has_started_) return false;
  const auto expected = eta_.Expected(TypeOf(cells_[cell]));
  return expected && *expected <= options_.time_limit_s && *expected > TimeToLimit();
}

bool Scheduler::OnlyLateCellsAreLeft() const {
  return CountRunning() == 0 &&
         std::all_of(pending_.begin(), pending_.end(), [this](std::size_t cell) {
           return EndsTooLate(cell) || WaitsForTraining(cells_[cell]);
         });
}

bool Scheduler::WaitsForTraining(const Cell& cell) const {
  return NamesTraining(cell.kind) && open_trainings_.contains(cell.training_id);
}

const reports::CellResult* Scheduler::FindFailedTraining(const Cell& cell) const {
  if (!NamesTraining(cell.kind)) return nullptr;
  const reports::CellResult* failed = nullptr;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    if (cells_[i].kind != CellKind::kTrain || cells_[i].training_id != cell.training_id) continue;
    if (!results_[i]) continue;
    const bool is_as_asked = !results_[i]->halved_from;
    if (results_[i]->state == reports::CellState::kCompleted && is_as_asked) return nullptr;
    failed = &*results_[i];
  }
  return failed;
}

bool Scheduler::MayStand(const Cell& cell, const reports::CellResult& result) const {
  if (!Reusable(result, options_.retry, options_.cell)) return false;
  const bool is_used = cell.kind == CellKind::kTrain && used_trainings_.contains(cell.training_id);
  if (!is_used || result.state != reports::CellState::kCompleted || result.halved_from) return true;
  return HasWeights(folder_.path(), cell.training_id, options_.cell.is_strict);
}

std::size_t Scheduler::CountRunning() const {
  std::size_t count = 0;
  for (const Worker& worker : workers_) count += worker.running.size();
  return count;
}

bool Scheduler::Fits(const Worker& worker, std::size_t cell) const {
  if (solitary_.contains(cell) && CountRunning() > 0) return false;
  for (const Worker& other : workers_) {
    if (!other.running.empty() && solitary_.contains(other.running.front().cell)) return false;
  }
  if (worker.running.empty()) return true;
  if (worker.process->closed()) return false;  // it ends
  if (static_cast<std::int64_t>(worker.running.size()) >= options_.cells_per_worker) return false;
  const std::size_t neighbour = worker.running.front().cell;
  // Whether matrix products may use tf32 is a setting of the whole process.
  return !alone_.contains(cell) && !alone_.contains(neighbour) &&
         (cells_[cell].train.dtype == Dtype::kTf32) ==
             (cells_[neighbour].train.dtype == Dtype::kTf32);
}

// Fills the worker with cells that no other process works on.
void Scheduler::Assign(Worker& worker) {
  for (std::size_t tries = BudgetIsUsed() ? 0 : pending_.size(); tries > 0; --tries) {
    const std::size_t index = pending_.front();
    pending_.pop_front();
    const Cell& cell = cells_[index];
    if (!Fits(worker, index) || EndsTooLate(index) || WaitsForTraining(cell)) {
      pending_.push_back(index);
      continue;
    }
    folder_.MakeCellFolder(cell);
    auto lock = CellLock::TryAcquire(folder_.CellPath(cell));
    if (!lock) {
      pending_.push_back(index);  // another process has it; look again later
      continue;
    }
    if (!lock->problem().empty() && !std::exchange(lacks_locks_, true)) {
      line_.Print("warning: " + folder_.path().string() + ": its file system has no locks (" +
                  lock->problem() + "); another run in this folder would do the same cells");
    }
    // Another process may have finished it since this one looked.
    std::string problem;
    if (auto result = folder_.LoadResult(cell, &problem); result && MayStand(cell, *result)) {
      Finish(index, std::move(*result));
      continue;
    }
    if (const reports::CellResult* failed = FindFailedTraining(cell)) {
      reports::CellResult result = ResultWithoutTraining(cell, *failed);
      Write(cell, result);
      Finish(index, std::move(result));
      continue;
    }
    Start(worker, index, std::move(*lock));
  }
}

void Scheduler::Start(Worker& worker, std::size_t cell, CellLock lock) {
  const std::string path = std::filesystem::absolute(folder_.CellPath(cells_[cell])).string();
  if (!folder_.WriteConfig(cells_[cell])) {
    line_.Print("warning: " + path + "/config.json was not that of the cell; written anew");
  }
  std::error_code ignored;  // a stale result of a retried cell may or may not be there
  std::filesystem::remove(path + "/result.json", ignored);
  if (options_.retry == RetryPolicy::kAll) {
    RemoveCheckpoints(path);
    if (cells_[cell].kind == CellKind::kTrain) {
      WeightsOf(folder_.path(), cells_[cell].training_id, options_.cell.is_strict).RemoveAll();
    }
  }
  const std::string id = folder_.CellPath(cells_[cell]).filename().string();
  const auto halved = halved_.find(cell);
  const std::string message =
      halved == halved_.end() ? id : id + " " + std::to_string(halved->second);
  // What a user's code leaves in its process, such as a setting of torch, is not for other cells.
  Object python = PythonCodeOf(cells_[cell]);
  if (!worker.python.empty() && worker.python != python) worker.process.reset();
  worker.python = std::move(python);
  if (worker.process && !worker.process->Send(message)) {
    worker.process->Kill();  // it takes no more, if it has not ended already
    HandleExit(worker, worker.process->Wait());
  }
  if (!worker.process) {
    worker.process =
        std::make_unique<WorkerProcess>(options_.worker_command, WorkerArguments(worker.device));
    worker.process->Send(message);
  }
  has_started_ = true;
  const auto now = Clock::now();
  worker.running.push_back(
      {.cell = cell, .lock = std::move(lock), .started = now, .last_message = now});
  if (worker.running.size() > 1) {
    for (Running& running : worker.running) running.shared = true;
  }
  if (worker.device != "cpu" || CountRunning() < 2) return;
  for (Worker& busy : workers_) {
    for (Running& running : busy.running) running.crowded = true;
  }
}

std::vector<std::string> Scheduler::WorkerArguments(const std::string& device) const {
  const CellOptions& cell = options_.cell;
  std::vector<std::string> arguments = {
      "worker",
      "--device",
      device,
      "--cells",
      std::filesystem::absolute(folder_.path() / "cells").string(),
      "--cell-timeout",
      io::DumpJson(Value(cell.timeout_s)),  // all digits: a millionth is not 0
      "--checkpoint-interval",
      io::DumpJson(Value(cell.checkpoint_interval_s)),
      "--weights-limit",
      std::to_string(cell.weights_limit_mib)};
  if (!cell.log_items.empty()) {
    arguments.emplace_back("--log-items");
    arguments.push_back(cell.log_items);
  }
  if (options_.log != nullptr) {
    arguments.insert(arguments.end(), {"--log-file", options_.log->path().string()});
  }
  if (!cell.use_graphs) arguments.emplace_back("--no-graph");
  if (cell.keeps_weights_for_run) arguments.emplace_back("--keep-weights-for-run");
  if (cell.is_strict) arguments.insert(arguments.end(), {"--deterministic", "strict"});
  if (cell.require_device_cores) arguments.emplace_back("--require-device-cores");
  return arguments;
}

void Scheduler::Wait() {
  std::vector<pollfd> descriptors;
  std::vector<Worker*> busy;
  for (Worker& worker : workers_) {
    if (worker.running.empty()) continue;
    busy.push_back(&worker);
    const int descriptor = worker.process->closed() ? -1 : worker.process->read_descriptor();
    descriptors.push_back({descriptor, POLLIN, 0});  // nothing is waited for at -1
  }
  poll(descriptors.data(), descriptors.size(), kPollInterval_ms);
  for (std::size_t i = 0; i < busy.size(); ++i) {
    if (descriptors[i].revents != 0) ReadMessages(*busy[i]);
    if (busy[i]->process && busy[i]->process->closed()) CheckEnd(*busy[i]);
    CheckTimes(*busy[i]);
  }
}

void Scheduler::ReadMessages(Worker& worker) {
  const auto lines = worker.process->ReadLines();
  if (!lines) return;
  for (const std::string& line : *lines) HandleMessage(worker, line);
}

// "progress ID {...}", "done ID", "interrupted ID" or "failed ID reason", where ID names the cell's
// folder.
void Scheduler::HandleMessage(Worker& worker, const std::string& line) {
  const auto [word, rest] = FirstWord(line);
  const auto [id, text] = FirstWord(rest);
  const auto found =
      std::find_if(worker.running.begin(), worker.running.end(), [&](const Running& running) {
        return folder_.CellPath(cells_[running.cell]).filename() == id;
      });
  if (found == worker.running.end()) return;  // a cell that was given up meanwhile
  found->last_message = Clock::now();
  if (word == "progress") TakeProgress(*found, text);
  if (word != "done" && word != "interrupted" && word != "failed") return;
  Running running = std::move(*found);
  const std::size_t cell = running.cell;
  worker.running.erase(found);
  if (word == "failed") {
    Collect(std::move(running), reports::CellState::kError, text);
  } else if (word == "done") {
    Collect(std::move(running), reports::CellState::kError, "the worker wrote no result");
  } else {
    Collect(std::move(running), reports::CellState::kInterrupted,
            "its worker was asked to stop; run again to continue");
  }
  // What a user's code has left where it failed, such as open files, would fail the next cell too.
  const bool has_failed = results_[cell] && results_[cell]->state == reports::CellState::kError;
  if (has_failed && RunsPython(cells_[cell])) worker.process.reset();
}

void Scheduler::TakeProgress(Running& running, const std::string& text) {
  const Value progress = io::ParseJson(text);
  const std::int64_t step = progress.Find("step")->as_int();
  const std::int64_t num_steps = progress.Find("num_steps")->as_int();
  running.share_done = static_cast<double>(step) / static_cast<double>(num_steps);
  if (!running.first_progress) running.first_progress = {Clock::now(), running.share_done};
  running.progress = "step " + std::to_string(step) + "/" + std::to_string(num_steps);
  if (const Value* accuracy = progress.Find("validation_accuracy")) {
    running.progress += Number(" val %.2f", accuracy->as_double());
  }
}

void Scheduler::CheckTimes(Worker& worker) {
  const auto now = Clock::now();
  const auto late = [&](const Running& running) {
    return options_.cell.timeout_s > 0 &&
           Seconds(now - running.started) > options_.cell.timeout_s + kHangGrace_s;
  };
  const auto hangs = [&](const Running& running) {
    return late(running) || (options_.stall_timeout_s > 0 &&
                             Seconds(now - running.last_message) > options_.stall_timeout_s);
  };
  const auto found = std::find_if(worker.running.begin(), worker.running.end(), hangs);
  if (found == worker.running.end()) return;
  const std::string reason =
      late(*found) ? "the worker did not answer within its time limit"
                   : "no sign of life for " + FormatDuration(options_.stall_timeout_s);
  Running hung = std::move(*found);
  worker.running.erase(found);
  worker.process->KillAsking();  // there is no other way to end a thread that hangs
  worker.process.reset();
  for (Running& neighbour : TakeAll(worker)) Requeue(std::move(neighbour));
  const std::string place = PlaceOf(hung);
  Collect(std::move(hung), reports::CellState::kTimeout, reason + place);
}

// " (mine.py:14 in forward)": where the Python code of a cell stood when its process was ended.
std::string Scheduler::PlaceOf(const Running& running) const {
  const std::string places = PlacesInFile(folder_.CellPath(cells_[running.cell]) / kTracebackFile);
  return places.empty() ? "" : " (" + places + ")";
}

void Scheduler::CheckEnd(Worker& worker) {
  if (worker.process->HasEnded()) return HandleExit(worker, worker.process->Wait());
  if (Seconds(Clock::now() - *worker.process->closed()) < kHangGrace_s) return;
  worker.process->KillAsking();
  HandleExit(worker, {.text = "closed its output and did not end"});
}

void Scheduler::HandleExit(Worker& worker, const WorkerProcess::End& end) {
  const auto state = end.out_of_memory ? reports::CellState::kOom : reports::CellState::kError;
  const std::string reason = "the worker process " + end.text;
  worker.process.reset();
  for (Running& running : TakeAll(worker)) {
    std::string problem;
    const auto result = folder_.LoadResult(cells_[running.cell], &problem);
    // An error beside others may be what one of them did to the device.
    const bool is_own = result && !reports::EndedInError(*result);
    if (running.shared && !is_own) {
      line_.Print(Label(cells_[running.cell]) + ": beside other cells " + reason +
                  ", to be tried alone");
      alone_.insert(running.cell);
      Requeue(std::move(running));
    } else {
      const std::string place = PlaceOf(running);
      Collect(std::move(running), state, reason + place);
    }
  }
}

std::vector<Scheduler::Running> Scheduler::TakeAll(Worker& worker) {
  return std::exchange(worker.running, {});
}

void Scheduler::Requeue(Running running) {
  std::error_code ignored;  // there may be none
  std::filesystem::remove(folder_.CellPath(cells_[running.cell]) / "result.json", ignored);
  pending_.push_back(running.cell);
}

bool Scheduler::TryAlone(Running& running) {
  if (!running.shared && !running.crowded) return false;
  line_.Print(Label(cells_[running.cell]) +
              ": out of memory beside other cells, to be tried alone");
  (running.shared ? alone_ : solitary_).insert(running.cell);
  Requeue(std::move(running));
  return true;
}

std::int64_t Scheduler::BatchSizeOf(std::size_t cell) const {
  const auto halved = halved_.find(cell);
  return halved == halved_.end() ? cells_[cell].train.batch_size : halved->second;
}

// The row of a cell that fits with no batch size: the one that was asked for is what failed.
reports::CellResult Scheduler::FitsNowhere(const Cell& cell, const reports::CellResult& last) {
  reports::CellResult result = ResultOf(cell);
  result.state = last.state;
  result.reason = last.reason + "; with batches of 1 too";
  result.environment = last.environment;
  result.started = last.started;
  result.wall_s = last.wall_s;
  result.energy_j = last.energy_j;
  result.machine = last.machine;
  return result;
}

bool Scheduler::TryHalved(Running& running, const reports::CellResult* result) {
  const Cell& cell = cells_[running.cell];
  const std::int64_t batch_size = BatchSizeOf(running.cell);
  if (options_.on_oom != OnOom::kHalve || cell.kind != CellKind::kTrain || batch_size < 2) {
    return false;
  }
  if (result && !LackedInTraining(cell, batch_size, *result)) return false;
  halved_[running.cell] = batch_size / 2;
  line_.Print(Label(cell) + ": batches of " + std::to_string(batch_size) +
              " do not fit in memory, to be tried with " + std::to_string(batch_size / 2));
  Requeue(std::move(running));
  return true;
}

void Scheduler::Collect(Running running, reports::CellState state, const std::string& reason) {
  const Cell& cell = cells_[running.cell];
  std::string problem;
  auto result = folder_.LoadResult(cell, &problem);
  const auto ended = result ? result->state : state;
  // A training whose tests lacked memory has kept its weights, if any are kept.
  if (result && reports::HasSegmentIn(reports::CellState::kOom, *result) && TryAlone(running)) {
    return;
  }
  if (ended == reports::CellState::kOom) {
    if (TryAlone(running) || TryHalved(running, result ? &*result : nullptr)) return;
    const std::int64_t batch_size = BatchSizeOf(running.cell);
    if (result && result->halved_from && LackedInTraining(cell, batch_size, *result)) {
      result = FitsNowhere(cell, *result);
      Write(cell, *result);
    }
  }
  if (!result) {
    result = ResultOf(cell);
    result->state = state;
    result->reason = problem.empty() ? reason : reason + "; " + problem;
    result->wall_s = Seconds(Clock::now() - running.started);
    Write(cell, *result);
  }
  if (result->state == reports::CellState::kCompleted) eta_.Add(TypeOf(cell), result->wall_s);
  Finish(running.cell, std::move(*result));
}

// With rows for what a cell that failed was to score.
void Scheduler::Write(const Cell& cell, reports::CellResult& result) const {
  Guard([&] { AddMissingRows(cell, tasks_, result); });  // it has failed already
  io::WriteFileAtomically(folder_.CellPath(cell) / "result.json", reports::DumpCell(result));
}

void Scheduler::Finish(std::size_t cell, reports::CellResult result) {
  ++num_finished_;
  if (cells_[cell].kind == CellKind::kTrain) {
    open_trainings_.erase(open_trainings_.find(cells_[cell].training_id));
  }
  std::string text = "[" + std::to_string(num_finished_) + "/" + std::to_string(num_pending_) +
                     "] " + Label(cells_[cell]) + ": " + std::string(NameOf(result.state));
  if (!result.reason.empty()) text += " (" + result.reason + ")";
  for (const auto& row : result.accuracy) {
    if (!row.slice.empty()) continue;
    if (row.accuracy) {
      text += Number(" %.3f", *row.accuracy);
    } else if (result.state == reports::CellState::kCompleted) {
      text += " " + std::string(NameOf(row.state));
    }
  }
  line_.Print(text + ", " + std::to_string(result.step) + " steps, " +
              FormatDuration(result.wall_s));
  results_[cell] = std::move(result);
}

void Scheduler::StopWorkers() {
  for (Worker& worker : workers_) {
    if (worker.process) worker.process->Terminate();
  }
  const auto deadline = Clock::now() + kStopGrace;
  const auto alive = [](Worker& worker) { return worker.process && !worker.process->HasEnded(); };
  while (Clock::now() < deadline && std::any_of(workers_.begin(), workers_.end(), alive)) {
    std::this_thread::sleep_for(kStopPollInterval);
  }
  workers_.clear();  // kills what is left
}

std::string Scheduler::Status() const {
  std::string text = "[" + std::to_string(num_finished_) + "/" + std::to_string(num_pending_) +
                     "] eta " + FormatLeft(TimeLeft());
  for (const Worker& worker : workers_) {
    for (const Running& running : worker.running) {
      text += "; " + Label(cells_[running.cell]);
      if (!running.progress.empty()) text += " " + running.progress;
    }
  }
  return text;
}

Eta::Left Scheduler::TimeLeft() const {
  std::vector<Eta::Running> running;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    for (const Running& cell : workers_[i].running) {
      const auto now = Clock::now();
      const auto [since, share] = cell.first_progress.value_or(std::pair(now, cell.share_done));
      running.push_back({.type = TypeOf(cells_[cell.cell]),
                         .elapsed_s = Seconds(now - cell.started),
                         .share_done = cell.share_done,
                         .share_seen = cell.share_done - share,
                         .seen_s = Seconds(now - since),
                         .worker = i});
    }
  }
  std::vector<Eta::Waiting> waiting;
  for (const std::size_t cell : pending_) {
    waiting.push_back({TypeOf(cells_[cell]), alone_.contains(cell)});
  }
  return eta_.Estimate(running, waiting);
}

}  // namespace mixerbench::harness
