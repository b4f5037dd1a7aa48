// What `status` reads from a run folder: states, progress, what is left to do.
// SPDX-License-Identifier: Apache-2.0
#include "harness/run/folder_status.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/file.h>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "harness/run/plan.h"
#include "io/atomic_file.h"
#include "reports/result/result_json.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;
using reports::CellResult;
using reports::CellState;

// A folder whose plan has the seeds 0 to num_cells - 1 of one setting.
class Folder {
 public:
  Folder(const std::string& name, std::uint64_t num_cells)
      : out(fs::path(std::getenv("TEST_TMPDIR")) / name) {
    fs::create_directories(out / "cells");
    Plan plan{"s", Object{}, {}};
    for (std::uint64_t seed = 0; seed < num_cells; ++seed) plan.cells.push_back(Cell(seed));
    WritePlan(out, plan);
  }

  static CellResult Cell(std::uint64_t seed) {
    CellResult cell;
    cell.name = "mqar/gla";
    cell.kind = "train";
    cell.seed = seed;
    cell.experiment_id = cell.code_id = cell.data_id = "sha256:" + Sha256Hex("a");
    cell.group_id = "sha256:" + Sha256Hex("group");
    cell.run_id = "sha256:" + Sha256Hex(std::to_string(seed));
    cell.config = Object{};
    return cell;
  }

  fs::path CellPath(std::uint64_t seed) const {
    const fs::path path = CellFolder(out, Cell(seed).run_id);
    fs::create_directories(path);
    return path;
  }
  void Finish(std::uint64_t seed, CellState state, const std::string& reason = "") const {
    CellResult cell = Cell(seed);
    cell.state = state;
    cell.reason = reason;
    cell.wall_s = 100;
    Write(cell);
  }
  void Write(const CellResult& cell) const {
    io::WriteFileAtomically(CellPath(cell.seed) / "result.json", reports::DumpCell(cell));
  }
  void WriteEvents(std::uint64_t seed, const std::string& events) const {
    std::ofstream(CellPath(seed) / "events.jsonl") << events;
  }
  // As who works on the cell has it.
  int Lock(std::uint64_t seed) const {
    const int file = open((CellPath(seed) / "LOCK").c_str(), O_CREAT | O_RDWR, 0644);
    REQUIRE(flock(file, LOCK_EX | LOCK_NB) == 0);
    return file;
  }

  const fs::path out;
};

constexpr const char* kStart = R"({"elapsed_s":0.0,"event":"start","started":"now"})"
                               "\n";

std::string Step(int step, double elapsed_s) {
  return R"({"elapsed_s":)" + std::to_string(elapsed_s) + R"(,"num_steps":100,"step":)" +
         std::to_string(step) + "}\n";
}

TEST_CASE("status: every cell of the plan has its state, and what would run is counted") {
  const Folder folder("states", 5);
  folder.Finish(0, CellState::kCompleted);
  folder.Finish(1, CellState::kDiverged, "training loss is not finite at step 3");
  folder.WriteEvents(2, kStart + Step(40, 8) +
                            R"({"elapsed_s":9.0,"event":"end","state":"interrupted"})"
                            "\n");
  folder.WriteEvents(3, kStart + Step(10, 1) + kStart + Step(20, 2) + Step(30, 4) + R"({"elap)");
  const io::Descriptor running(folder.Lock(3));
  const FolderStatus status = ReadStatus(folder.out);
  CHECK(status.name == "s");
  CHECK(CountStates(status) ==
        std::map<std::string, std::size_t>{
            {"completed", 1}, {"diverged", 1}, {"interrupted", 1}, {"running", 1}, {"planned", 1}});
  CHECK(CountToRun(status) == 2);
  CHECK(CountToRetry(status) == 1);
  CHECK(status.cells[1].cell.reason == "training loss is not finite at step 3");
  CHECK_FALSE(status.cells[0].attempt);
  CHECK_FALSE(status.cells[4].attempt);

  const auto& stopped = status.cells[2].attempt;
  REQUIRE(stopped);
  CHECK(stopped->step == 40);
  CHECK(stopped->num_steps == 100);
  CHECK(stopped->elapsed_s == 9);

  // A line that is being written is not read, and only the last attempt counts.
  const auto& going_on = status.cells[3].attempt;
  REQUIRE(going_on);
  CHECK(going_on->step == 30);
  CHECK(going_on->first_step == 20);
  CHECK(going_on->first_elapsed_s == 2);
  CHECK(going_on->silent_s < 60);
  CHECK(status.cells[3].cell.reason.empty());
}

TEST_CASE("status: what would run is what a run would not let stand") {
  const Folder folder("standing", 3);
  CellResult lacks_memory = Folder::Cell(0);
  lacks_memory.state = CellState::kCompleted;
  lacks_memory.accuracy.emplace_back().state = CellState::kOom;
  folder.Write(lacks_memory);
  CellResult throttled = Folder::Cell(1);
  throttled.state = CellState::kCompleted;
  throttled.throughput.resize(1);
  throttled.throughput[0].samples_ms = {1, 1, 1, 1};
  throttled.throughput[0].throttled_samples_dropped = 2;
  folder.Write(throttled);
  folder.Finish(2, CellState::kCompleted);
  const FolderStatus status = ReadStatus(folder.out);
  CHECK(CountStates(status) == std::map<std::string, std::size_t>{{"completed", 3}});
  CHECK(CountToRun(status) == 1);
  CHECK(CountToRetry(status) == 1);
}

TEST_CASE("status: reading takes no lock away and writes nothing") {
  const Folder folder("quiet", 2);
  folder.WriteEvents(0, kStart);
  const auto list = [&] {
    std::map<fs::path, fs::file_time_type> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder.out)) {
      files[entry.path()] = entry.last_write_time();
    }
    return files;
  };
  { const io::Descriptor unused(folder.Lock(0)); }
  const auto before = list();
  CHECK(StateName(ReadStatus(folder.out).cells[0]) == "interrupted");
  CHECK(list() == before);
  const io::Descriptor taken(folder.Lock(0));
  CHECK(StateName(ReadStatus(folder.out).cells[0]) == "running");
  CHECK(StateName(ReadStatus(folder.out).cells[1]) == "planned");
}

TEST_CASE("status: the time left is told while something runs") {
  const Folder folder("left", 4);
  folder.Finish(0, CellState::kCompleted);
  CHECK_FALSE(TimeLeft(ReadStatus(folder.out)));
  folder.WriteEvents(1, kStart + Step(10, 10));
  const io::Descriptor running(folder.Lock(1));
  const auto left = TimeLeft(ReadStatus(folder.out));
  REQUIRE(left);
  CHECK_FALSE(left->at_least);
  // The running cell may have been continued at its first report; the others take 100 s each.
  CHECK(left->seconds == Approx(80 + 200).margin(5));
}

TEST_CASE("status: damaged events cost what they would have told") {
  const Folder folder("damaged", 1);
  folder.WriteEvents(0, "nonsense\n{\"step\": \"x\"}\n");
  const FolderStatus status = ReadStatus(folder.out);
  CHECK(StateName(status.cells[0]) == "interrupted");
  CHECK_FALSE(status.cells[0].attempt);
}

TEST_CASE("status: a folder of an earlier version shows what finished") {
  const FolderStatus status = ReadStatus("reports/testing/testdata/schema-1.2");
  CHECK(status.name == "golden");
  CHECK(status.cells.size() == 3);
  CHECK(CountToRun(status) == 0);
  CHECK_THROWS_AS(ReadStatus("reports/testing/testdata"), Error);
}

}  // namespace
}  // namespace mixerbench::harness
