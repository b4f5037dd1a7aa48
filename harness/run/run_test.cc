// A whole run in this process, with a worker whose cells behave as told (scheduler_test_worker.py):
// what is planned, started, left alone, tried again, and how it ends. Then cells that run again.
// SPDX-License-Identifier: Apache-2.0
#include "harness/run/run.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sha256.h"
#include "harness/device/determinism.h"
#include "harness/run/device_time.h"
#include "harness/run/folder_report.h"
#include "harness/run/folder_status.h"
#include "harness/run/plan.h"
#include "harness/run/repro.h"
#include "harness/run/run_folder.h"
#include "harness/suite/identity.h"
#include "harness/suite/registries.h"
#include "harness/suite/suite.h"
#include "harness/suite/suite_text.h"
#include "io/atomic_file.h"
#include "io/tensor_file.h"
#include "reports/result/result_json.h"
#include "reports/summary/deep_check.h"

#include "tests/support/catch2.h"

namespace {

bool has_locks = true;

}  // namespace

// In the place of libc's, for what a file system without locks answers.
extern "C" int flock(int descriptor, int operation) noexcept {
  if (has_locks) return static_cast<int>(syscall(SYS_flock, descriptor, operation));
  errno = EOPNOTSUPP;
  return -1;
}

namespace mixerbench::harness {
namespace {

using reports::CellState;

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

// What a stream gets while it lives.
class Captured {
 public:
  explicit Captured(std::ostream& stream) : stream_(stream), outer_(stream.rdbuf(text_.rdbuf())) {}
  ~Captured() { stream_.rdbuf(outer_); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::ostream& stream_;
  std::streambuf* outer_;
};

struct Outcome {
  ExitCode code = ExitCode::kOk;
  std::string out, err;
  std::map<std::string, int> starts;  // of cells, by their folders
};

int CountStarts(const Outcome& outcome) {
  int count = 0;
  for (const auto& [cell, starts] : outcome.starts) count += starts;
  return count;
}

// A suite of four cells, two rates and two seeds, and the folder that it runs in.
class TestRun {
 public:
  explicit TestRun(const std::string& sections = "") {
    static int count = 0;
    base_ = std::filesystem::path(std::getenv("TEST_TMPDIR")) / ("run" + std::to_string(++count));
    std::filesystem::create_directories(base_);
    options.suite = (base_ / "suite.json").string();
    options.out = (base_ / "out").string();
    options.device = "cpu";
    options.jobs = 2;
    options.worker_command = {"harness/run/scheduler_test_worker.py"};
    std::ofstream(options.suite) << R"({"name": "tiny",
        "task": {"name": "mqar", "vocab_size": 16, "noise": "zero", "input_seq_len": 8,
                 "num_kv_pairs": 1, "train": {"num_examples": 8},
                 "validation": {"num_examples": 8}, "test": {"num_examples": 8}},
        "model": {"d_model": 16, "n_layers": 1, "sequence_mixer": {"name": "attention"}},
        "train": {"batch_size": 8, "num_epochs": 1},
        "sweep": {"grid": {"train.lr": [0.01, 0.001]}}, "seeds": {"count": 2})"
                                 << sections << "}";
  }

  // The cells of the suite as the options ask for them.
  std::vector<Cell> Cells() const {
    return ParseSuite(ReadSuiteText(options.suite), options.overrides, AllRegistries()).cells;
  }

  // What the worker does with a cell, and the result that `complete` leaves.
  void Behave(const Cell& cell, const std::string& script, CellState state,
              double wall_s = 0.5) const {
    std::filesystem::create_directories(CellPath(cell));
    std::ofstream(CellPath(cell) / "behaviour") << script << "\n";
    auto result = ResultOf(cell);
    result.state = state;
    if (state != CellState::kCompleted) result.reason = "as told";
    result.wall_s = wall_s;
    Prepare(cell, result);
  }
  void Prepare(const Cell& cell, const reports::CellResult& result) const {
    io::WriteFileAtomically(CellPath(cell) / "prepared.json", reports::DumpCell(result));
  }
  void AllComplete() const {
    for (const Cell& cell : Cells()) Behave(cell, "complete()", CellState::kCompleted);
  }
  std::filesystem::path CellPath(const Cell& cell) const {
    return RunFolder(options.out).CellPath(cell);
  }

  Outcome Run() const {
    const std::string log = (base_ / "log").string();
    std::filesystem::remove(log);
    setenv("SCHEDULER_TEST_LOG", log.c_str(), 1);
    Outcome outcome;
    {
      const Captured out(std::cout), err(std::cerr);
      outcome.code = harness::Run(options, AllRegistries());
      outcome.out = out.text();
      outcome.err = err.text();
    }
    std::ifstream file(log);
    for (std::string word, cell, pid; file >> word >> cell >> pid;) {
      if (word == "start") ++outcome.starts[cell];
    }
    return outcome;
  }

  RunOptions options;

 private:
  std::filesystem::path base_;
};

TEST_CASE("run: a dry run prints the plan and writes nothing") {
  TestRun run;
  run.options.dry_run = true;
  const auto planned = run.Run();
  CHECK(planned.code == ExitCode::kOk);
  CHECK(CountStarts(planned) == 0);
  for (const Cell& cell : run.Cells()) {
    CHECK_THAT(planned.out, Catch::Contains(cell.run_id.substr(0, 16) + "  to run"));
  }
  CHECK_THAT(planned.out,
             Catch::Contains("4 cells: 2 settings x 2 seeds (0, 1); 0 done, 4 to run") &&
                 Catch::Contains("; memory at least ") &&
                 Catch::Contains(" for mqar/attention/lr=0.0") &&
                 Catch::Contains(" for 2 like it at once, of ") && Catch::Contains("; disk ") &&
                 Catch::Contains(" (results 768 KiB, "));
  CHECK(!std::filesystem::exists(run.options.out));
}

TEST_CASE("run: every cell runs once, and a second call finds nothing to do") {
  const TestRun run;
  run.AllComplete();
  const auto first = run.Run();
  CHECK(first.code == ExitCode::kOk);
  CHECK(first.starts.size() == 4);
  CHECK(CountStarts(first) == 4);
  CHECK_THAT(first.err, Catch::Contains("0 done, 4 to run, 2 at once") &&
                            Catch::Contains("done: 4 completed, 0 not"));
  for (const char* file : {"sweep.json", "report.json", "report.md", "report.html"}) {
    CHECK(std::filesystem::exists(std::filesystem::path(run.options.out) / file));
  }
  const auto second = run.Run();
  CHECK(second.code == ExitCode::kOk);
  CHECK(CountStarts(second) == 0);
  CHECK_THAT(second.err, Catch::Contains("nothing to do: all 4 cells of 'tiny' are finished"));
}

TEST_CASE("run: a failed cell stays, is tried again when asked, and decides the exit code") {
  TestRun run;
  run.AllComplete();
  const Cell failing = run.Cells()[2];
  run.Behave(failing, "complete()", CellState::kDiverged);
  CHECK(run.Run().code == ExitCode::kCellsFailed);

  const auto again = run.Run();
  CHECK(again.code == ExitCode::kCellsFailed);
  CHECK(CountStarts(again) == 0);
  CHECK_THAT(again.err, Catch::Contains("done: 3 completed, 1 not"));
  run.options.let_pass = {ExitCode::kMissing};
  CHECK(run.Run().code == ExitCode::kCellsFailed);
  run.options.let_pass = {ExitCode::kCellsFailed};
  CHECK(run.Run().code == ExitCode::kOk);
  run.options.let_pass = {};

  run.Behave(failing, "complete()", CellState::kCompleted);
  run.options.retry = RetryPolicy::kFailed;
  const auto retried = run.Run();
  CHECK(retried.code == ExitCode::kOk);
  CHECK(retried.starts ==
        std::map<std::string, int>{{run.CellPath(failing).filename().string(), 1}});

  run.options.retry = RetryPolicy::kAll;
  const auto fresh = run.Run();
  CHECK(fresh.code == ExitCode::kOk);
  CHECK(fresh.starts.size() == 4);
}

TEST_CASE("run: a damaged result is named and made again") {
  const TestRun run;
  run.AllComplete();
  run.Run();
  const Cell damaged = run.Cells()[1];
  std::ofstream(run.CellPath(damaged) / "result.json") << "{";
  const auto again = run.Run();
  CHECK(again.code == ExitCode::kOk);
  CHECK_THAT(again.err, Catch::Contains("warning: ") && Catch::Contains("result.json"));
  CHECK(again.starts == std::map<std::string, int>{{run.CellPath(damaged).filename().string(), 1}});
}

TEST_CASE(
    "run: where files have no locks cells run, and it is said once that nothing protects them") {
  const TestRun run;
  run.AllComplete();
  has_locks = false;
  const Outcome outcome = run.Run();
  has_locks = true;
  CHECK(outcome.code == ExitCode::kOk);
  CHECK(CountStarts(outcome) == 4);
  const std::string warning = "its file system has no locks (Operation not supported)";
  REQUIRE_THAT(outcome.err, Catch::Contains(warning));
  CHECK(outcome.err.find(warning) == outcome.err.rfind(warning));
}

TEST_CASE("run: a result that cannot be read ends the run and stays") {
  const TestRun run;
  run.AllComplete();
  run.Run();
  const auto path = run.CellPath(run.Cells()[1]) / "result.json";
  std::filesystem::rename(path, path.string() + ".whole");
  std::filesystem::create_symlink("result.json", path);  // a circle, which not even root reads
  const std::string expected = "result.json: cannot read: Too many levels of symbolic links";
  CHECK_THROWS_WITH(run.Run(), Catch::EndsWith(expected));
  CHECK_THROWS_WITH(ReportOf(run.options.out), Catch::EndsWith(expected));
  CHECK(std::filesystem::is_symlink(path));
}

TEST_CASE("run: what a killed writer left does not make a folder another's") {
  const TestRun run;
  run.AllComplete();
  run.Run();
  const std::filesystem::path out = run.options.out;
  for (const char* name : {".sweep.json.22101.0", ".report.json.7.3"}) std::ofstream(out / name);
  CHECK(run.Run().code == ExitCode::kOk);
  std::ofstream(out / ".notes.1.0");
  CHECK_THROWS_WITH(run.Run(), Catch::Contains("holds '.notes.1.0', which is not ours"));
}

TEST_CASE("run: a limit makes other cells, which are no stand-ins for the whole ones") {
  TestRun run;
  run.AllComplete();
  run.Run();
  run.options.overrides.limit = 4;
  run.options.plan = PlanPolicy::kMerge;
  run.AllComplete();
  const auto limited = run.Run();
  CHECK(limited.code == ExitCode::kOk);
  CHECK(limited.starts.size() == 4);
  run.options.overrides.limit = 0;
  CHECK(CountStarts(run.Run()) == 0);
}

TEST_CASE("run: shards share the cells, and none takes another's") {
  TestRun run;
  run.AllComplete();
  std::map<std::string, int> starts;
  for (const std::uint64_t index : {0, 1, 2}) {
    run.options.shard = {index, 3};
    const auto shard = run.Run();
    CHECK(shard.code == ExitCode::kOk);
    for (const auto& [cell, count] : shard.starts) starts[cell] += count;
    if (index < 2 && starts.size() < 4) CHECK_THAT(shard.err, Catch::Contains("left to others"));
  }
  CHECK(starts.size() == 4);
  for (const auto& [cell, count] : starts) CHECK(count == 1);
}

TEST_CASE("run: what cannot run is refused before anything is written") {
  const auto refused = [](TestRun& run, const std::string& message) {
    CHECK_THROWS_WITH(run.Run(), Catch::Contains(message));
    CHECK(!std::filesystem::exists(run.options.out));
  };
  TestRun speed;
  speed.options.throughput_only = true;
  refused(speed, "/throughput: the suite measures no speed");
  TestRun cores;
  cores.options.cell.require_device_cores = true;
  refused(cores, "--require-device-cores");
}

TEST_CASE("run: what does not fit on the disk is refused with figures before anything is written") {
  TestRun run;
  run.options.free_space = [](const auto&) { return std::int64_t{1} << 17; };
  try {
    run.Run();
    FAIL("nothing was refused");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kOutput);
    CHECK_THAT(error.what(), Catch::StartsWith(run.options.out + ": needs ") &&
                                 Catch::Contains(" (results 768 KiB, checkpoints ") &&
                                 Catch::Contains(", and 128 KiB are free; make room"));
    CHECK_THAT(error.what(), !Catch::Contains("\n"));
  }
  CHECK(!std::filesystem::exists(run.options.out));
}

TEST_CASE("run: a disk that is nearly full is named once, and one that is not or unknown is not") {
  const TestRun told;  // the same cells in a folder of its own: the others begin without one
  told.AllComplete();
  setenv("SCHEDULER_TEST_CELLS", (std::filesystem::path(told.options.out) / "cells").c_str(), 1);
  const auto warnings = [](std::optional<std::int64_t> free) {
    TestRun run;
    run.options.free_space = [=](const auto&) { return free; };
    const Outcome first = run.Run();
    CHECK(first.code == ExitCode::kOk);
    const std::string text = "warning: " + run.options.out + ": needs ";
    const auto at = first.err.find(text);
    return at == std::string::npos ? 0 : first.err.find(text, at + 1) == std::string::npos ? 1 : 2;
  };
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  CHECK(warnings(2 * kMiB) == 1);
  CHECK(warnings(100 * kMiB) == 0);
  CHECK(warnings(std::nullopt) == 0);
}

TEST_CASE("run: a finished run asks for no space") {
  TestRun run;
  run.AllComplete();
  CHECK(run.Run().code == ExitCode::kOk);
  run.options.free_space = [](const auto&) { return std::int64_t{0}; };
  const auto second = run.Run();
  CHECK(second.code == ExitCode::kOk);
  CHECK_THAT(second.err, Catch::Contains("nothing to do"));
}

TEST_CASE("run: under a time limit nothing begins that cannot end, and the rest stays planned") {
  TestRun run;
  run.options.jobs = 1;
  run.options.time_limit_s = 1000;
  for (const Cell& cell : run.Cells()) {
    run.Behave(cell, "complete()", CellState::kCompleted, /*wall_s=*/1000);
  }
  for (const char* left : {"3 cells are left", "2 cells are left"}) {
    const auto limited = run.Run();  // begins one, whatever it takes
    CHECK(limited.code == ExitCode::kStoppedEarly);
    CHECK(CountStarts(limited) == 1);
    CHECK_THAT(limited.err, Catch::Contains("time limit of 16m40s: ") && Catch::Contains(left));
  }
  run.options.time_limit_s = 999;  // which no cell fits into: they are stopped and go on
  const auto rest = run.Run();
  CHECK(rest.code == ExitCode::kOk);
  CHECK(CountStarts(rest) == 2);
}

TEST_CASE("run: what runs at the end of the time limit is stopped") {
  TestRun run;
  run.AllComplete();
  const Cell slow = run.Cells()[0];
  run.Behave(slow, "pause(60)", CellState::kCompleted);
  run.options.jobs = 1;
  run.options.time_limit_s = 1;
  const auto start = std::chrono::steady_clock::now();
  CHECK(run.Run().code == ExitCode::kStoppedEarly);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  CHECK(!std::filesystem::exists(run.CellPath(slow) / "result.json"));
  run.options.started = start;  // as a suite of a collection whose time is up
  const auto late = run.Run();
  CHECK(late.code == ExitCode::kStoppedEarly);
  CHECK(CountStarts(late) == 0);
}

TEST_CASE("run: once the device time is used no cell begins, and the rest says why") {
  TestRun run;
  run.options.jobs = 1;
  for (const Cell& cell : run.Cells()) {
    run.Behave(cell, "pause(1); complete()", CellState::kCompleted);
  }
  run.options.max_device_s = 1.5;
  const auto first = run.Run();
  CHECK(first.code == ExitCode::kMissing);
  CHECK(CountStarts(first) == 2);  // the second began in time
  CHECK_THAT(first.err,
             Catch::Contains("2 cells not started: the device time of --max-gpu-hours is used, "));
  const auto reasons = [&] {
    std::size_t count = 0;
    for (const auto& cell : ReadReport(run.options.out).cells) {
      count += cell.state == CellState::kPlanned && cell.reason.starts_with("not started: ");
    }
    return count;
  };
  CHECK(reasons() == 2);
  CHECK_THAT(io::ReadFile(run.options.out + "/report.md"), Catch::Contains("2 of 4 planned cells"));
  const auto again = run.Run();  // what was used stays used
  CHECK(again.code == ExitCode::kMissing);
  CHECK(CountStarts(again) == 0);
  CHECK(reasons() == 2);
  run.options.let_pass = {ExitCode::kMissing};
  CHECK(run.Run().code == ExitCode::kOk);
  const double noted = NotedDeviceTime(run.options.out);
  CHECK(noted > 2);
  CHECK(noted < 60);
  // A torn line costs itself alone.
  std::ofstream(run.options.out + "/device-time.jsonl", std::ios::app) << R"({"device_s": 1)";
  CHECK(NotedDeviceTime(run.options.out) == noted);
  run.options.max_device_s = 100;
  CHECK(run.Run().code == ExitCode::kOk);
  CHECK(reasons() == 0);
  CHECK(NotedDeviceTime(run.options.out) > noted + 2);
}

TEST_CASE("run: device time that cannot be noted stops a run with a budget, and no other") {
  TestRun run;
  run.options.jobs = 4;
  for (const Cell& cell : run.Cells()) {
    run.Behave(cell, "pause(4); complete()", CellState::kCompleted);
  }
  std::filesystem::create_directory(std::filesystem::path(run.options.out) / kDeviceTimeFile);
  const auto outcome = run.Run();
  CHECK(outcome.code == ExitCode::kOk);
  const std::string warning = "device-time.jsonl: Is a directory; --max-gpu-hours will not count";
  REQUIRE_THAT(outcome.err, Catch::Contains(warning));
  CHECK(outcome.err.find(warning) == outcome.err.rfind(warning));
  run.options.max_device_s = 1000;
  run.options.retry = RetryPolicy::kAll;
  CHECK_THROWS_WITH(run.Run(), Catch::EndsWith("device-time.jsonl: Is a directory"));
}

TEST_CASE("run: what finished cells say will exceed the device time is refused before it starts") {
  TestRun run;
  run.options.jobs = 1;
  for (const Cell& cell : run.Cells()) {
    run.Behave(cell, "pause(1); complete()", CellState::kCompleted, /*wall_s=*/500);
  }
  run.options.max_device_s = 1.5;
  CHECK(run.Run().code == ExitCode::kMissing);  // nothing was known
  const double noted = NotedDeviceTime(run.options.out);
  run.options.max_device_s = noted + 900;  // two cells of 500 s are left
  CHECK_THROWS_WITH(run.Run(), Catch::Contains("--max-gpu-hours: what is to run takes about") &&
                                   Catch::Contains("16m40s of device time"));
  CHECK(NotedDeviceTime(run.options.out) == noted);
  run.options.max_device_s = noted + 1100;
  CHECK(run.Run().code == ExitCode::kOk);
}

TEST_CASE("run: in strict mode only strict results stand, and what was refused may run without") {
  TestRun run;
  run.AllComplete();
  run.Run();
  run.options.cell.is_strict = true;
  for (const Cell& cell : run.Cells()) {
    auto result = ResultOf(cell);
    result.state = CellState::kCompleted;
    result.environment = Object{{"determinism", Object{{"deterministic_algorithms", "strict"}}}};
    if (cell.seed == 1) {
      result.state = CellState::kError;
      result.reason =
          "x does not have a deterministic implementation, but you set "
          "'torch.use_deterministic_algorithms(True)'. You can";
      ExplainRefusal(result);
      CHECK(result.state == CellState::kUnsupported);
      CHECK(result.reason ==
            "--deterministic strict: x does not have a deterministic implementation");
    }
    run.Prepare(cell, result);
  }
  CHECK(CountStarts(run.Run()) == 4);
  CHECK(CountStarts(run.Run()) == 0);
  run.options.cell.is_strict = false;
  CHECK(CountStarts(run.Run()) == 2);  // strict results are as good as others
}

TEST_CASE(
    "run: a GPU that is too hot for timings makes the machine unfit, until it has cooled down") {
  TestRun run;
  run.AllComplete();
  const Cell cell = run.Cells().front();
  auto result = ResultOf(cell);
  result.state = CellState::kCompleted;
  result.throughput.resize(1);
  result.throughput[0].state = CellState::kSkipped;
  result.throughput[0].reason = "the GPU was slowed down";
  result.throughput[0].throttled_samples_dropped = 3;
  run.Prepare(cell, result);
  const Outcome hot = run.Run();
  CHECK(hot.code == ExitCode::kEnvironment);
  CHECK_THAT(hot.err, Catch::Contains("slowed down while 1 of the cells were timed"));
  run.AllComplete();
  const Outcome cool = run.Run();
  CHECK(cool.code == ExitCode::kOk);
  CHECK(CountStarts(cool) == 1);
}

TEST_CASE("run: the log has what a quiet run does not say") {
  TestRun run;
  run.AllComplete();
  run.options.log_file = run.options.out + ".log";
  run.options.dry_run = true;
  run.Run();
  CHECK(!std::filesystem::exists(run.options.log_file));
  run.options.dry_run = false;
  run.options.quiet = true;
  const auto quiet = run.Run();
  CHECK(quiet.err.find("[4/4]") == std::string::npos);
  CHECK_THAT(quiet.err, Catch::Contains("done: 4 completed"));
  const std::string log = io::ReadFile(run.options.log_file);
  for (const char* line : {"0 done, 4 to run", "[4/4]", "done: 4 completed", "exit code 0"}) {
    CHECK_THAT(log, Catch::Contains(line));
  }
  run.options.plan = PlanPolicy::kRefuse;
  run.options.overrides.set = {{"train.lr", "7"}};
  CHECK_THROWS_AS(run.Run(), Error);
  CHECK_THAT(io::ReadFile(run.options.log_file), Catch::Contains("Z error: "));
}

// A run that reports two fresh seeds, 100 and 101, of the better rate, which is 0.01.
class ReseedRun : public TestRun {
 public:
  ReseedRun() {
    options.overrides.set = {{"sweep.select",
                              R"({"over": ["train.lr"], "by": "validation.accuracy",
                                  "reseed": {"count": 2, "base": 100}})"}};
    for (const Cell& cell : Cells()) Learn(cell, cell.train.lr == 0.01 ? 0.9 : 0.5);
    for (const double lr : {0.01, 0.001}) {
      for (const Cell& cell : Fresh(lr)) Learn(cell, 0.1);
    }
  }

  // Leaves a validation accuracy.
  void Learn(const Cell& cell, double accuracy) const {
    Behave(cell, "complete()", CellState::kCompleted);
    auto result = ResultOf(cell);
    result.state = CellState::kCompleted;
    result.learning_curve = {{.step = 1, .train_loss = 1, .validation_accuracy = accuracy}};
    result.accuracy.emplace_back().accuracy = accuracy;
    Prepare(cell, result);
  }

  std::vector<Cell> Fresh(double lr) const {
    std::vector<Cell> fresh;
    CellIdentifier identifier(AllRegistries());
    for (const Cell& cell : Cells()) {
      if (cell.train.lr != lr || cell.seed > 1) continue;
      fresh.push_back(cell);
      fresh.back().seed += 100;
      identifier.Identify(fresh.back());
    }
    return fresh;
  }

  reports::SweepReport Report() const { return ReadReport(options.out); }
};

TEST_CASE("run: fresh seeds of what was chosen follow the sweep, once") {
  ReseedRun run;
  run.options.dry_run = true;
  CHECK_THAT(run.Run().out,
             Catch::Contains("4 cells: 2 settings x 2 seeds (0, 1); 0 done, 4 to run, 2 at once; "
                             "then 1 chosen setting x 2 fresh seeds (100..101), 1 of them not "
                             "chosen yet"));
  run.options.dry_run = false;
  const auto first = run.Run();
  CHECK(first.code == ExitCode::kOk);
  CHECK(first.starts.size() == 6);
  CHECK_THAT(first.err, Catch::Contains("done: 6 completed, 0 not"));
  for (const Cell& cell : run.Fresh(0.01)) {
    CHECK(first.starts.contains(run.CellPath(cell).filename().string()));
  }
  const auto report = run.Report();
  CHECK(report.cells.size() == 6);
  CHECK(reports::CountMissing(report) == 0);
  CHECK(reports::DeepFaults(report).empty());
  CHECK(CountStarts(run.Run()) == 0);
  CHECK(ReadPlan(run.options.out)->cells.size() == 6);
  run.options.dry_run = true;
  const auto planned = run.Run();
  CHECK_THAT(planned.out, Catch::Contains(run.Fresh(0.01)[0].run_id.substr(0, 16) + "  completed"));
}

TEST_CASE("run: a run that stopped between the choice and the fresh seeds goes on") {
  ReseedRun run;
  run.Run();
  // As if it was killed before the fresh cells were entered in the plan.
  auto plan = *ReadPlan(run.options.out);
  std::erase_if(plan.cells,
                [](const auto& cell) { return cell.phase == reports::CellPhase::kReport; });
  WritePlan(run.options.out, plan);
  const Cell lost = run.Fresh(0.01)[1];
  std::filesystem::remove(run.CellPath(lost) / "result.json");
  CHECK(CountToRun(ReadStatus(run.options.out)) == 2);
  CHECK(reports::CountMissing(run.Report()) == 2);
  const auto again = run.Run();
  CHECK(again.code == ExitCode::kOk);
  CHECK(again.starts == std::map<std::string, int>{{run.CellPath(lost).filename().string(), 1}});
  CHECK(CountToRun(ReadStatus(run.options.out)) == 0);
}

TEST_CASE("run: another choice takes the place of the first, whose fresh seeds stay beside") {
  ReseedRun run;
  run.Run();
  run.options.overrides.seeds = {0, 1, 2};  // the third seed turns the choice
  for (const Cell& cell : run.Cells()) {
    if (cell.seed == 2) run.Learn(cell, cell.train.lr == 0.01 ? 0 : 0.94);
  }
  const auto more = run.Run();
  CHECK(more.code == ExitCode::kOk);
  CHECK(more.starts.size() == 4);  // a seed for each rate, two fresh ones of the other rate
  const auto report = run.Report();
  CHECK(report.cells.size() == 8);
  CHECK(report.left_out.size() == 2);
  CHECK(report.reseeds[0].name == "mqar/attention/lr=0.001");
  CHECK(reports::DeepFaults(report).empty());
  // The plan decides, not the part of it that a command asks for.
  run.options.overrides.seeds = {0, 1};
  CHECK(CountStarts(run.Run()) == 0);
  CHECK(run.Report().reseeds[0].name == "mqar/attention/lr=0.001");
}

TEST_CASE("run: shards leave no fresh seed behind, whoever is last") {
  ReseedRun run;
  std::map<std::string, int> starts;
  for (const std::uint64_t index : {0, 1, 2}) {
    run.options.shard = {index, 3};
    const auto shard = run.Run();
    CHECK(shard.code == ExitCode::kOk);
    for (const auto& [cell, count] : shard.starts) starts[cell] += count;
    CHECK((shard.err.find("still to be chosen") == std::string::npos) == (starts.size() == 6));
  }
  CHECK(starts.size() == 6);
  CHECK(reports::CountMissing(run.Report()) == 0);
}

TEST_CASE("run: fresh seeds go with their suite when plans are merged") {
  ReseedRun run;
  run.Run();
  run.options.overrides.set.emplace_back("train.batch_size", "4");
  run.options.plan = PlanPolicy::kMerge;
  for (const Cell& cell : run.Cells()) run.Learn(cell, 0.5);
  for (const Cell& cell : run.Fresh(0.01)) run.Learn(cell, 0.1);
  for (const Cell& cell : run.Fresh(0.001)) run.Learn(cell, 0.1);
  CHECK(run.Run().code == ExitCode::kOk);
  auto report = run.Report();
  CHECK(report.reseeds.size() == 2);
  CHECK(report.cells.size() == 12);
  CHECK(reports::CountMissing(report) == 0);
  // A suite that selects otherwise: nothing is chosen any more, and what ran stays.
  run.options.overrides.set = {{"train.weight_decay", "0.5"}};
  run.AllComplete();
  CHECK(run.Run().code == ExitCode::kOk);
  report = run.Report();
  CHECK(report.reseeds.empty());
  CHECK(report.cells.size() == 16);
}

// What `repro` says of the second cell of a run when it leaves `again` this time.
template <typename Change>
Outcome RunAgain(const TestRun& run, const Change& change) {
  const Cell cell = run.Cells()[1];
  auto again = ResultOf(cell);
  again.state = CellState::kCompleted;
  change(again);
  run.Prepare(cell, again);
  setenv("SCHEDULER_TEST_CELLS", run.CellPath(cell).parent_path().c_str(), 1);
  ReproOptions options;
  options.out = run.options.out;
  options.cell = cell.run_id.substr(0, 12);
  options.worker_command = run.options.worker_command;
  Outcome outcome;
  const Captured out(std::cout), err(std::cerr);
  outcome.code = Repro(options, AllRegistries());
  outcome.out = out.text();
  outcome.err = err.text();
  return outcome;
}

TEST_CASE("repro: the same bits, other bits, and other bits under other conditions") {
  const TestRun run;
  run.AllComplete();
  run.Run();
  const auto same = RunAgain(run, [](auto& result) { result.wall_s = 9; });
  CHECK(same.code == ExitCode::kOk);
  CHECK_THAT(same.out, Catch::Contains("seed 1: the same to the bit (no weights to compare)"));

  const auto other = RunAgain(run, [](auto& result) { result.step = 3; });
  CHECK(other.code == ExitCode::kNo);
  CHECK_THAT(other.out, Catch::Contains("1 values and 0 parameters differ") &&
                            Catch::Contains("result /state/step: 0 -> 3"));

  const auto elsewhere = RunAgain(run, [](auto& result) {
    result.step = 3;
    result.environment = Object{{"cpu", "another"}};
  });
  CHECK(elsewhere.code == ExitCode::kMissing);
  CHECK_THAT(elsewhere.out, Catch::Contains("under other conditions: this says nothing") &&
                                Catch::Contains("environment : null -> {\"cpu\":\"another\"}"));

  const auto other_code = RunAgain(run, [](auto& result) { result.code = Object{{"task", "x"}}; });
  CHECK(other_code.code == ExitCode::kOk);
  CHECK_THAT(other_code.out, Catch::Contains("the same to the bit, under other conditions") &&
                                 Catch::Contains("code /task"));

  const auto broken = RunAgain(run, [](auto& result) { result.state = CellState::kError; });
  CHECK(broken.code == ExitCode::kCellsFailed);
}

// Weights with one parameter in `folder`; returns the hash of their file.
std::string PutWeights(const std::filesystem::path& folder, char byte) {
  io::TensorFile file;
  file.tensors["head.weight"] = {io::ElementType::kU8, {1}, std::string(1, byte)};
  const std::string bytes = io::WriteSafetensors(file);
  const std::string hash = Sha256Hex(bytes);
  std::filesystem::create_directories(folder);
  io::WriteFileAtomically(folder / ("training-" + hash + ".safetensors"), bytes);
  return "sha256:" + hash;
}

TEST_CASE("repro: parameters that differ are named") {
  const TestRun run;
  run.AllComplete();
  const Cell cell = run.Cells()[1];
  const std::filesystem::path out = run.options.out;
  const std::filesystem::path again = out.string() + "-again";
  run.Behave(
      cell, "shutil.copytree('" + again.string() + "', cell.parent.parent / 'weights'); complete()",
      CellState::kCompleted);
  auto stored = ResultOf(cell);
  stored.state = CellState::kCompleted;
  stored.weights = {.sha256 = PutWeights(out / "weights", 'a'), .num_bytes = 1};
  io::WriteFileAtomically(run.CellPath(cell) / "result.json", reports::DumpCell(stored));
  run.Run();
  for (const char byte : {'a', 'b'}) {
    std::filesystem::remove_all(again);
    const std::string hash = PutWeights(again, byte);
    const auto outcome =
        RunAgain(run, [&](auto& result) { result.weights = {.sha256 = hash, .num_bytes = 1}; });
    CHECK(outcome.code == (byte == 'a' ? ExitCode::kOk : ExitCode::kNo));
    const std::string named =
        "0 values and 1 parameters differ under the same conditions\n"
        "  weights head.weight";
    CHECK((outcome.out.find(named) != std::string::npos) == (byte == 'b'));
  }
}

TEST_CASE("repro: cells that there are not, or that have nothing to compare with") {
  const TestRun run;
  run.AllComplete();
  const Cell failing = run.Cells()[2];
  run.Behave(failing, "complete()", CellState::kTimeout);
  run.Run();
  const auto refused = [&](const std::string& cell, ExitCode code, const std::string& message) {
    ReproOptions options;
    options.out = run.options.out;
    options.cell = cell;
    try {
      Repro(options, AllRegistries());
      FAIL("nothing was refused");
    } catch (const Error& error) {
      CHECK(error.code() == code);
      CHECK_THAT(error.what(), Catch::Contains(message));
    }
  };
  refused("0", ExitCode::kUsage, "no cell of");
  refused("mqar/none seed 0", ExitCode::kUsage, "`status` lists them");
  refused(failing.run_id, ExitCode::kMissing, "is timeout");
}

// The last one: that a stop was asked for is never forgotten.
TEST_CASE("run: a signal ends it early, and what is finished is kept") {
  TestRun run;
  run.options.jobs = 1;
  run.AllComplete();
  const auto cells = run.Cells();
  run.Behave(cells[1], "import os, signal; os.kill(os.getppid(), signal.SIGTERM); pause(60)",
             CellState::kCompleted);
  const auto stopped = run.Run();
  CHECK(stopped.code == ExitCode::kStoppedEarly);
  CHECK_THAT(stopped.err, Catch::Contains("the same command continues"));
  CHECK(std::filesystem::exists(run.CellPath(cells[0]) / "result.json"));
  CHECK(!std::filesystem::exists(run.CellPath(cells[2]) / "result.json"));
  CHECK(std::filesystem::exists(std::filesystem::path(run.options.out) / "report.json"));
}

}  // namespace
}  // namespace mixerbench::harness
