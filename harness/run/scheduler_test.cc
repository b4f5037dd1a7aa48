// The scheduler with a worker whose cells behave as told (scheduler_test_worker.py).
// SPDX-License-Identifier: Apache-2.0
#include "harness/run/scheduler.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "harness/python/python_mixer.h"
#include "harness/suite/registries.h"
#include "harness/suite/suite.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/result/result_json.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

using reports::CellState;

// What cells do unless told otherwise: they leave the result that is prepared.
constexpr const char* kCompletes = "complete()";

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

// A folder of its own, with cells of one suite.
class Plan {
 public:
  explicit Plan(int num_cells, const std::string& sections = "",
                const std::string& device_type = "cpu")
      : path_(std::filesystem::path(std::getenv("TEST_TMPDIR")) /
              ("plan" + std::to_string(++count_))),
        log_(path_.string() + ".log"),
        folder_(path_) {
    SuiteOverrides overrides;
    overrides.device_type = device_type;
    cells_ = ParseSuite(R"({"name": "plan",
        "task": {"name": "mqar", "vocab_size": 16, "noise": "zero", "input_seq_len": 8,
                 "num_kv_pairs": 1, "train": {"num_examples": 8},
                 "validation": {"num_examples": 8}, "test": {"num_examples": 8}},
        "model": {"d_model": 16, "n_layers": 1, "sequence_mixer": {"name": "attention"}},
        "train": {"batch_size": 8, "num_epochs": 1}, "seeds": {"count": )" +
                            std::to_string(num_cells) + "}" + sections + "}",
                        overrides, AllRegistries())
                 .cells;
    for (const Cell& cell : cells_) {
      std::filesystem::create_directories(folder_.CellPath(cell));
      Prepare(cell, CellState::kCompleted);
      Behave(cell, kCompletes);
    }
  }

  const std::vector<Cell>& cells() const { return cells_; }
  void PutInPython(std::size_t cell) {
    cells_[cell].code.as_object()["mixers"].as_object()[kPythonMixer] = "sha256:0";
  }
  const RunFolder& folder() const { return folder_; }

  // What the worker does with a cell.
  void Behave(const Cell& cell, const std::string& script) const {
    std::ofstream(folder_.CellPath(cell) / "behaviour") << script << "\n";
  }

  // The result that `complete` leaves.
  void Prepare(const Cell& cell, CellState state) const {
    WriteResult(cell, state, "prepared.json");
  }
  void WriteResult(const Cell& cell, CellState state, const char* name = "result.json") const {
    auto result = ResultOf(cell);
    result.state = state;
    if (state != CellState::kCompleted) result.reason = "as told";
    result.wall_s = 0.5;
    io::WriteFileAtomically(folder_.CellPath(cell) / name, reports::DumpCell(result));
  }

  // The same for an attempt with smaller batches.
  void PrepareHalved(const Cell& cell, std::int64_t batch_size, CellState state,
                     std::int64_t step) const {
    auto result = ResultOf(cell);
    result.state = state;
    if (state != CellState::kCompleted) result.reason = "as told";
    result.step = step;
    result.halved_from = cell.train.batch_size;
    const std::string name = "prepared-" + std::to_string(batch_size) + ".json";
    io::WriteFileAtomically(folder_.CellPath(cell) / name, reports::DumpCell(result));
  }

  // Runs all cells; false when it was stopped.
  bool Run(SchedulerOptions options) {
    setenv("SCHEDULER_TEST_LOG", log_.c_str(), 1);
    options.worker_command = {"harness/run/scheduler_test_worker.py"};
    options.quiet = true;
    std::vector<std::size_t> pending;
    for (std::size_t i = 0; i < cells_.size(); ++i) pending.push_back(i);
    results_.assign(cells_.size(), std::nullopt);
    return Scheduler(options, AllRegistries().tasks, folder_, cells_, pending, results_).Run() ==
           RunEnd::kFinished;
  }

  const reports::CellResult& result(std::size_t cell) const { return results_.at(cell).value(); }

  struct Event {
    std::string word, id, pid;
  };
  std::vector<Event> Log() const {
    std::vector<Event> events;
    std::ifstream file(log_);
    for (Event event; file >> event.word >> event.id >> event.pid;) events.push_back(event);
    return events;
  }
  // Processes that began with a cell, in order.
  std::vector<std::string> Workers(const Cell& cell) const {
    std::vector<std::string> pids;
    for (const Event& event : Log()) {
      if (event.word == "start" && event.id == folder_.CellPath(cell).filename()) {
        pids.push_back(event.pid);
      }
    }
    return pids;
  }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
  std::string log_;
  RunFolder folder_;
  std::vector<Cell> cells_;
  std::vector<std::optional<reports::CellResult>> results_;
};

SchedulerOptions OneWorker(std::int64_t cells_at_once = 1) {
  SchedulerOptions options;
  options.devices = {"cpu"};
  options.cells_per_worker = cells_at_once;
  return options;
}

TEST_CASE("scheduler: one worker process serves all cells, one after the other") {
  Plan plan(3);
  CHECK(plan.Run(OneWorker()));
  const auto log = plan.Log();
  REQUIRE(log.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(log[i].word == (i % 2 == 0 ? "start" : "end"));
    CHECK(log[i].id == log[i / 2 * 2].id);
    CHECK(log[i].pid == log[0].pid);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(plan.result(i).state == CellState::kCompleted);
    CHECK(plan.result(i).seed == plan.cells()[i].seed);
  }
}

TEST_CASE("scheduler: a lone cell that its worker dies of gets the blame, the next a new worker") {
  Plan plan(2);
  plan.Behave(plan.cells()[0], "die()");
  CHECK(plan.Run(OneWorker()));
  CHECK(plan.result(0).state == CellState::kError);
  CHECK_THAT(plan.result(0).reason, Catch::Contains("was killed by signal 9"));
  CHECK(plan.result(1).state == CellState::kCompleted);
  CHECK(plan.Workers(plan.cells()[0]) != plan.Workers(plan.cells()[1]));
  // The verdict is on disk, for whoever continues.
  std::string problem;
  CHECK(plan.folder().LoadResult(plan.cells()[0], &problem)->state == CellState::kError);
}

TEST_CASE("scheduler: cells that shared a dying worker are tried again, each alone") {
  Plan plan(2);
  plan.Behave(plan.cells()[0], "pause(0.3); die()");
  plan.Behave(plan.cells()[1], "pause(1); complete()");
  CHECK(plan.Run(OneWorker(/*cells_at_once=*/2)));
  CHECK(plan.result(0).state == CellState::kError);
  CHECK(plan.result(1).state == CellState::kCompleted);
  const auto first = plan.Workers(plan.cells()[0]);
  const auto second = plan.Workers(plan.cells()[1]);
  REQUIRE(first.size() == 2);
  REQUIRE(second.size() == 2);
  CHECK(first[0] == second[0]);
  CHECK(first[1] != second[1]);
}

TEST_CASE("scheduler: an error beside others is not believed when the worker dies of it") {
  Plan plan(2);
  plan.Prepare(plan.cells()[0], CellState::kError);
  plan.Behave(plan.cells()[0],
              "shutil.copy(cell / 'prepared.json', cell / 'result.json'); pause(0.3); die()");
  plan.Behave(plan.cells()[1], "pause(1); complete()");
  SECTION("beside another it is tried again") {
    CHECK(plan.Run(OneWorker(/*cells_at_once=*/2)));
    CHECK(plan.Workers(plan.cells()[0]).size() == 2);
    CHECK(plan.Workers(plan.cells()[1]).size() == 2);
  }
  SECTION("alone it stands") {
    CHECK(plan.Run(OneWorker()));
    CHECK(plan.Workers(plan.cells()[0]).size() == 1);
  }
  CHECK(plan.result(0).state == CellState::kError);
  CHECK(plan.result(0).reason == "as told");
  CHECK(plan.result(1).state == CellState::kCompleted);
}

// Its kernels may wait for the device, which a neighbour's graph capture does not survive.
TEST_CASE("scheduler: a cell with a mixer in Python has its worker for itself") {
  Plan plan(3);
  plan.PutInPython(1);
  for (const Cell& cell : plan.cells()) plan.Behave(cell, "pause(0.3); complete()");
  CHECK(plan.Run(OneWorker(/*cells_at_once=*/3)));
  int running = 0;
  const std::string python = plan.folder().CellPath(plan.cells()[1]).filename();
  for (const auto& event : plan.Log()) {
    running += event.word == "start" ? 1 : -1;
    if (event.id == python) CHECK(running == (event.word == "start" ? 1 : 0));
  }
  CHECK(plan.Workers(plan.cells()[1]).size() == 1);
}

TEST_CASE("scheduler: a cell that lacked memory beside another is tried again, alone it is final") {
  Plan plan(2);
  plan.Prepare(plan.cells()[0], CellState::kOom);
  plan.Behave(plan.cells()[1], "pause(0.5); complete()");
  CHECK(plan.Run(OneWorker(/*cells_at_once=*/2)));
  CHECK(plan.result(0).state == CellState::kOom);
  CHECK(plan.Workers(plan.cells()[0]).size() == 2);
  CHECK(plan.result(1).state == CellState::kCompleted);
  CHECK(plan.Workers(plan.cells()[1]).size() == 1);
}

// As `Prepare`: a training that completed and could not score its test.
void PrepareWithoutTest(const Plan& plan, const Cell& cell, CellState state) {
  auto result = ResultOf(cell);
  result.state = CellState::kCompleted;
  reports::AccuracyRow& row = result.accuracy.emplace_back();
  row.axes = {{"input_seq_len", 8}};
  row.state = state;
  row.reason = "as told";
  io::WriteFileAtomically(plan.folder().CellPath(cell) / "prepared.json",
                          reports::DumpCell(result));
}

TEST_CASE("scheduler: a test that lacked memory beside others is tried again alone") {
  Plan plan(2);
  PrepareWithoutTest(plan, plan.cells()[0], CellState::kOom);
  plan.Behave(plan.cells()[1], "pause(0.5); complete()");
  CHECK(plan.Run(OneWorker(/*cells_at_once=*/2)));
  CHECK(plan.result(0).state == CellState::kCompleted);
  CHECK(plan.Workers(plan.cells()[0]).size() == 2);
  CHECK(plan.Workers(plan.cells()[1]).size() == 1);
}

TEST_CASE(
    "scheduler: a test that failed beside others is not believed when the worker dies of it") {
  Plan plan(2);
  PrepareWithoutTest(plan, plan.cells()[0], CellState::kError);
  plan.Behave(plan.cells()[0],
              "shutil.copy(cell / 'prepared.json', cell / 'result.json'); pause(0.3); die()");
  plan.Behave(plan.cells()[1], "pause(1); complete()");
  CHECK(plan.Run(OneWorker(/*cells_at_once=*/2)));
  CHECK(plan.Workers(plan.cells()[0]).size() == 2);
}

SchedulerOptions HalvingWorker(std::int64_t cells_at_once = 1) {
  SchedulerOptions options = OneWorker(cells_at_once);
  options.on_oom = OnOom::kHalve;
  return options;
}

TEST_CASE("scheduler: batches are halved until they fit, and only where that is asked for") {
  Plan plan(1);
  const Cell& cell = plan.cells()[0];  // batches of 8
  plan.Prepare(cell, CellState::kOom);
  plan.PrepareHalved(cell, 4, CellState::kOom, 0);
  plan.PrepareHalved(cell, 2, CellState::kCompleted, 4);
  CHECK(plan.Run(OneWorker()));
  CHECK(plan.result(0).state == CellState::kOom);
  CHECK(plan.Workers(cell).size() == 1);
  std::filesystem::remove(plan.folder().CellPath(cell) / "result.json");
  CHECK(plan.Run(HalvingWorker()));
  CHECK(plan.result(0).state == CellState::kCompleted);
  CHECK(plan.result(0).halved_from == 8);
  CHECK(plan.Workers(cell).size() == 1 + 3);
}

TEST_CASE("scheduler: a cell that lacks memory beside others is tried alone before it is halved") {
  Plan plan(2);
  const Cell& cell = plan.cells()[0];
  plan.Prepare(cell, CellState::kOom);
  plan.Behave(cell, "print(batch_size, file=open(cell / 'sizes', 'a')); complete()");
  plan.PrepareHalved(cell, 4, CellState::kCompleted, 2);
  plan.Behave(plan.cells()[1], "pause(0.5); complete()");
  CHECK(plan.Run(HalvingWorker(/*cells_at_once=*/2)));
  CHECK(plan.result(0).halved_from == 8);
  CHECK(io::ReadFile(plan.folder().CellPath(cell) / "sizes", 100) == "0\n0\n4\n");
}

TEST_CASE("scheduler: what fits with no batch size is the cell that was asked for") {
  Plan plan(1);
  const Cell& cell = plan.cells()[0];
  plan.Prepare(cell, CellState::kOom);
  for (const std::int64_t size : {4, 2, 1}) plan.PrepareHalved(cell, size, CellState::kOom, 0);
  CHECK(plan.Run(HalvingWorker()));
  CHECK(plan.result(0).state == CellState::kOom);
  CHECK_FALSE(plan.result(0).halved_from);
  CHECK(plan.result(0).reason == "as told; with batches of 1 too");
  CHECK(plan.Workers(cell).size() == 4);
}

TEST_CASE("scheduler: where evaluation lacks memory smaller training batches help nothing") {
  Plan plan(1);
  const Cell& cell = plan.cells()[0];
  plan.Prepare(cell, CellState::kOom);
  plan.PrepareHalved(cell, 4, CellState::kOom, 2);  // of the 2 steps that 8 samples are
  CHECK(plan.Run(HalvingWorker()));
  CHECK(plan.result(0).state == CellState::kOom);
  CHECK(plan.result(0).halved_from == 8);
  CHECK(plan.Workers(cell).size() == 2);
}

TEST_CASE("scheduler: a cell without a sign of life is a timeout, its neighbour runs again") {
  Plan plan(2);
  plan.Behave(plan.cells()[0], "pause(100)");
  plan.Behave(plan.cells()[1], R"(
for i in range(6):
  say(f'progress {cell.name} {{"step": {i}, "num_steps": 6}}')
  pause(0.3)
complete())");
  SchedulerOptions options = OneWorker(/*cells_at_once=*/2);
  options.stall_timeout_s = 1;
  CHECK(plan.Run(options));
  CHECK(plan.result(0).state == CellState::kTimeout);
  CHECK_THAT(plan.result(0).reason, Catch::Contains("no sign of life for 1s"));
  CHECK(plan.result(1).state == CellState::kCompleted);
  CHECK(plan.Workers(plan.cells()[1]).size() == 2);
}

TEST_CASE("scheduler: what a worker leaves that died unnoticed between two cells runs again") {
  Plan plan(3);
  plan.Behave(plan.cells()[0], R"(
if (cell / 'began').exists(): complete()
(cell / 'began').touch())");
  // The copy of the process holds the pipe, so that no end of file tells of the death.
  plan.Behave(plan.cells()[1], R"(
import os
while not list(cell.parent.glob('*/began')): pause(0.01)
worker = os.getpid()
if os.fork() > 0: die()
os.close(0)
while os.getppid() == worker: pause(0.01)
complete()
pause(1)
os._exit(0))");
  SchedulerOptions options = OneWorker(/*cells_at_once=*/2);
  options.stall_timeout_s = 10;
  CHECK(plan.Run(options));
  for (std::size_t i = 0; i < 3; ++i) CHECK(plan.result(i).state == CellState::kCompleted);
  CHECK(plan.Workers(plan.cells()[0]).size() == 2);
}

TEST_CASE("scheduler: a worker that closes its output and hangs is given up, others go on") {
  Plan plan(3);
  plan.Behave(plan.cells()[0], "import os; os.close(1); pause(100)");
  SchedulerOptions options = OneWorker();
  options.devices.push_back("cpu");
  const auto start = std::chrono::steady_clock::now();
  CHECK(plan.Run(options));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  CHECK(plan.result(0).state == CellState::kError);
  CHECK_THAT(plan.result(0).reason, Catch::Contains("closed its output and did not end"));
  const auto log = plan.Log();  // the others had ended before it was given up
  CHECK(std::count_if(log.begin(), log.end(), [](const auto& e) { return e.word == "end"; }) == 2);
  CHECK(plan.result(1).wall_s == 0.5);
  CHECK(plan.result(2).wall_s == 0.5);
}

TEST_CASE("scheduler: a worker that says what is not so is not believed") {
  Plan plan(3);
  plan.Behave(plan.cells()[0], "say(f'done {cell.name}')");
  plan.Behave(plan.cells()[1], "(cell / 'result.json').write_text('{'); say(f'done {cell.name}')");
  plan.Behave(plan.cells()[2], "say('done another'); say(f'interrupted {cell.name}')");
  CHECK(plan.Run(OneWorker()));
  CHECK(plan.result(0).state == CellState::kError);
  CHECK_THAT(plan.result(0).reason, Catch::Contains("the worker wrote no result"));
  CHECK(plan.result(1).state == CellState::kError);
  CHECK_THAT(plan.result(1).reason, Catch::Contains("result.json"));
  CHECK(plan.result(2).state == CellState::kInterrupted);
}

TEST_CASE("scheduler: what measures speed has the worker for itself") {
  Plan plan(2, R"(, "throughput": {"seq_len": [8], "batch_size": 1})");
  const auto is_measured = [](const Cell& cell) { return cell.kind == CellKind::kThroughput; };
  std::map<std::string, bool> measured;
  for (const Cell& cell : plan.cells()) {
    plan.Behave(cell, "pause(0.3); complete()");
    measured[plan.folder().CellPath(cell).filename()] = is_measured(cell);
  }
  REQUIRE(std::any_of(plan.cells().begin(), plan.cells().end(), is_measured));
  CHECK(plan.Run(OneWorker(/*cells_at_once=*/4)));
  std::set<std::string> running;
  bool any_shared = false;
  for (const auto& event : plan.Log()) {
    if (event.word == "end") {
      running.erase(event.id);
      continue;
    }
    running.insert(event.id);
    any_shared = any_shared || running.size() > 1;
    for (const std::string& id : running) CHECK((running.size() == 1 || !measured.at(id)));
  }
  CHECK(any_shared);
}

TEST_CASE("scheduler: cells with and without tf32 share no process at the same time") {
  Plan plan(1, R"(, "sweep": {"grid": {"train.dtype": ["fp32", "tf32"]}})", "cuda");
  for (const Cell& cell : plan.cells()) plan.Behave(cell, "pause(0.3); complete()");
  CHECK(plan.Run(OneWorker(/*cells_at_once=*/2)));
  const auto log = plan.Log();
  REQUIRE(log.size() == 4);
  CHECK(log[1].word == "end");
}

TEST_CASE("scheduler: a cell that another process works on is taken from it when it is done") {
  Plan plan(1);
  auto lock = CellLock::TryAcquire(plan.folder().CellPath(plan.cells()[0]));
  REQUIRE(lock);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    plan.WriteResult(plan.cells()[0], CellState::kDiverged);
    lock.reset();
  });
  CHECK(plan.Run(OneWorker()));
  other.join();
  CHECK(plan.result(0).state == CellState::kDiverged);
  CHECK(plan.Log().empty());
}

const std::string kUses =
    R"(, "evaluate": [{"num_examples": 4}], "analyse": [{"taps": "all", "num_examples": 4}])";

TEST_CASE("scheduler: what uses a training waits for it") {
  Plan plan(2, kUses);
  std::map<std::string, std::string> training_of;  // by the id of a folder
  for (const Cell& cell : plan.cells()) {
    training_of[plan.folder().CellPath(cell).filename()] = cell.training_id;
    if (cell.kind == CellKind::kTrain) plan.Behave(cell, "pause(0.4); complete()");
  }
  CHECK(plan.Run(OneWorker(/*cells_at_once=*/4)));
  std::set<std::string> trained;
  const auto log = plan.Log();
  CHECK(log.size() == 12);
  for (const auto& event : log) {
    const auto cell = std::find_if(plan.cells().begin(), plan.cells().end(), [&](const Cell& c) {
      return plan.folder().CellPath(c).filename() == event.id;
    });
    const std::string& training = training_of.at(event.id);
    if (NamesTraining(cell->kind)) CHECK(trained.contains(training));
    if (cell->kind == CellKind::kTrain && event.word == "end") trained.insert(training);
  }
}

TEST_CASE("scheduler: what uses a training that failed never starts and has failed alike") {
  Plan plan(1, kUses);
  plan.Prepare(plan.cells()[0], CellState::kDiverged);
  CHECK(plan.Run(OneWorker()));
  for (const std::size_t use : {1, 2}) {
    CHECK(plan.result(use).state == CellState::kDiverged);
    CHECK(plan.result(use).reason == "its training: as told");
    CHECK(plan.Workers(plan.cells()[use]).empty());
    std::string problem;
    CHECK(plan.folder().LoadResult(plan.cells()[use], &problem)->state == CellState::kDiverged);
  }
  CHECK(plan.result(1).accuracy.size() == 1);  // which counts as chance
}

TEST_CASE("scheduler: smaller batches leave no weights for what uses the training as asked") {
  Plan plan(1, kUses);
  plan.Prepare(plan.cells()[0], CellState::kOom);
  plan.PrepareHalved(plan.cells()[0], 4, CellState::kCompleted, 2);
  CHECK(plan.Run(HalvingWorker()));
  CHECK(plan.result(0).state == CellState::kCompleted);
  for (const std::size_t use : {1, 2}) {
    CHECK(plan.result(use).state == CellState::kOom);
    CHECK(plan.result(use).reason == "its training: no batch of 8 sequences fits in memory");
    CHECK(plan.Workers(plan.cells()[use]).empty());
  }
  CHECK(plan.Run(HalvingWorker()));  // the halved training stands, though it left no such weights
  CHECK(plan.Workers(plan.cells()[0]).size() == 2);
}

TEST_CASE("scheduler: what uses a training that was refused runs when that does") {
  reports::CellResult result;
  result.kind = "evaluate";
  result.state = CellState::kUnsupported;
  result.reason = "its training: --require-device-cores: no device code";
  CHECK(Reusable(result, RetryPolicy::kNone, {.require_device_cores = true}));
  CHECK_FALSE(Reusable(result, RetryPolicy::kNone, {}));
  result.reason = "its training: d_model must be even";
  CHECK(Reusable(result, RetryPolicy::kNone, {}));
}

TEST_CASE("scheduler: which results may stand") {
  reports::CellResult result;
  const auto reusable = [&](CellState state, RetryPolicy retry) {
    result.state = state;
    return Reusable(result, retry, {});
  };
  for (const auto retry : {RetryPolicy::kNone, RetryPolicy::kFailed, RetryPolicy::kAll}) {
    CHECK_FALSE(reusable(CellState::kInterrupted, retry));
    CHECK(reusable(CellState::kCompleted, retry) == (retry != RetryPolicy::kAll));
    CHECK(reusable(CellState::kOom, retry) == (retry == RetryPolicy::kNone));
  }
  result.accuracy.emplace_back().state = CellState::kUnsupported;
  CHECK(reusable(CellState::kCompleted, RetryPolicy::kFailed));
  result.accuracy.emplace_back().state = CellState::kOom;
  CHECK(reusable(CellState::kCompleted, RetryPolicy::kNone));
  CHECK_FALSE(reusable(CellState::kCompleted, RetryPolicy::kFailed));
}

TEST_CASE("scheduler: timings lost to a hot GPU are taken again") {
  reports::CellResult result;
  result.kind = "throughput";
  result.state = CellState::kCompleted;
  result.throughput.resize(1);
  result.throughput[0].samples_ms = {1, 1, 1, 1};
  result.throughput[0].throttled_samples_dropped = 1;
  CHECK(Reusable(result, RetryPolicy::kNone, {}));
  result.throughput[0].throttled_samples_dropped = 2;
  CHECK_FALSE(Reusable(result, RetryPolicy::kNone, {}));
}

TEST_CASE("scheduler: a result without items stands unless they are asked for") {
  reports::CellResult result;
  result.kind = "train";
  result.state = CellState::kCompleted;
  CHECK(Reusable(result, RetryPolicy::kNone, {}));
  CHECK_FALSE(Reusable(result, RetryPolicy::kNone, {.log_items = "jsonl"}));
  result.items.push_back({.segment = 0, .file = "items-0.jsonl.zst", .sha256 = {}});
  CHECK(Reusable(result, RetryPolicy::kNone, {.log_items = "jsonl"}));
  result.items.clear();
  result.kind = "throughput";
  CHECK(Reusable(result, RetryPolicy::kNone, {.log_items = "jsonl"}));
}

}  // namespace
}  // namespace mixerbench::harness
