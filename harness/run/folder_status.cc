// SPDX-License-Identifier: Apache-2.0
#include "harness/run/folder_status.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/transform.hpp>
#include <string_view>
#include <sys/file.h>
#include <utility>

#include "base/error.h"
#include "harness/run/folder_report.h"
#include "harness/run/plan.h"
#include "harness/run/standing.h"
#include "io/atomic_file.h"
#include "io/json.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;
using reports::CellResult;
using reports::CellState;

constexpr std::uint64_t kMaxEventBytes = std::uint64_t{64} << 20;  // of a file's end
constexpr std::string_view kStart = R"("event":"start")";

// True when some process works on the cell.
bool IsLocked(const fs::path& cell_folder) {
  const io::Descriptor file(
      open((cell_folder / "LOCK").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return file.get() >= 0 && flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// What the last attempt wrote, complete lines alone: the writer may be at work.
std::string EventsOfLastAttempt(const fs::path& path) {
  const io::InputFile file(path);
  std::string text(static_cast<std::size_t>(std::min(file.size(), kMaxEventBytes)), '\0');
  file.ReadAt(file.size() - text.size(), text);
  text.resize(text.find_last_of('\n') + 1);  // npos + 1 == 0: no line is complete
  const std::size_t start = text.rfind(kStart);
  return start == text.npos ? text : text.substr(text.find('\n', start) + 1);
}

double Seconds(const Value& event) { return event.Find("elapsed_s")->as_double(); }

void TakeEvent(const Value& event, AttemptProgress& progress) {
  progress.elapsed_s = Seconds(event);
  const Value* step = event.Find("step");
  if (step == nullptr) return;
  if (progress.num_steps == 0) {
    progress.first_step = step->as_int();
    progress.first_elapsed_s = progress.elapsed_s;
  }
  progress.step = step->as_int();
  progress.num_steps = event.Find("num_steps")->as_int();
  if (const Value* accuracy = event.Find("validation_accuracy")) {
    progress.validation_accuracy = accuracy->as_double();
  }
}

// Cuts the last line off; `text` ends with a line end.
std::string_view TakeLastLine(std::string_view& text) {
  text.remove_suffix(1);
  const std::size_t start = text.find_last_of('\n') + 1;
  const std::string_view line = text.substr(start);
  text = text.substr(0, start);
  return line;
}

// The first line and the last two, in order: those between are many, and an attempt that was
// stopped ends with a line that tells no step.
std::vector<std::string_view> LinesThatTell(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty() && lines.size() < 2) lines.push_back(TakeLastLine(text));
  if (!text.empty()) lines.push_back(text.substr(0, text.find('\n')));
  std::reverse(lines.begin(), lines.end());
  return lines;
}

// Nothing when the cell was never begun.
std::optional<AttemptProgress> ReadAttempt(const fs::path& cell_folder) {
  const fs::path path = cell_folder / "events.jsonl";
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  if (error) return std::nullopt;
  AttemptProgress progress;
  const auto age = fs::file_time_type::clock::now() - written;
  progress.silent_s = std::max(0.0, std::chrono::duration<double>(age).count());
  const std::string text = EventsOfLastAttempt(path);
  for (const std::string_view line : LinesThatTell(text)) {
    TakeEvent(io::ParseJson(line), progress);
  }
  return progress;
}

CellStatus StatusOf(const fs::path& out, const CellResult& planned) {
  const fs::path folder = CellFolder(out, planned.run_id);
  CellStatus status;
  // Asked first: a cell that ends after this has its result by then.
  status.is_running = IsLocked(folder);
  status.cell = RowOf(out, planned);
  if (!reports::IsMissing(status.cell)) {
    status.is_running = false;
    return status;
  }
  try {
    status.attempt = ReadAttempt(folder);
  } catch (const std::exception&) {  // damaged events cost what they would have told
  }
  if (status.is_running) status.cell.reason.clear();
  return status;
}

}  // namespace

FolderStatus ReadStatus(const fs::path& out) {
  const std::optional<Plan> plan = ReadPlan(out);
  FolderStatus status;
  if (!plan) {
    reports::SweepReport report = ReportOf(out);
    status.name = report.name;
    for (CellResult& cell : report.cells) {
      status.cells.push_back({.cell = std::move(cell), .attempt = std::nullopt});
    }
    return status;
  }
  status.name = plan->name;
  for (const CellResult& planned : plan->cells) status.cells.push_back(StatusOf(out, planned));
  status.left_out = FindLeftOut(out, *plan);
  auto rows =
      status.cells | ranges::views::transform(&CellStatus::cell) | ranges::to<std::vector>();
  status.reseeds = reports::MakeSweepReport(plan->name, plan->config, std::move(rows)).reseeds;
  std::erase_if(status.reseeds,
                [](const reports::Reseed& reseed) { return reseed.unplanned.empty(); });
  return status;
}

std::string StateName(const CellStatus& status) {
  return status.is_running ? "running" : std::string(NameOf(status.cell.state));
}

std::map<std::string, std::size_t> CountStates(const FolderStatus& status) {
  std::map<std::string, std::size_t> counts;
  for (const CellStatus& cell : status.cells) ++counts[StateName(cell)];
  return counts;
}

std::size_t CountToRun(const FolderStatus& status) {
  std::size_t count = 0;
  for (const reports::Reseed& reseed : status.reseeds) count += reseed.unplanned.size();
  for (const CellStatus& cell : status.cells) {
    count += !cell.is_running && !Stands(cell.cell, RetryPolicy::kNone) ? 1 : 0;
  }
  return count;
}

std::size_t CountToRetry(const FolderStatus& status) {
  return static_cast<std::size_t>(
      std::count_if(status.cells.begin(), status.cells.end(), [](const CellStatus& cell) {
        return Stands(cell.cell, RetryPolicy::kNone) && !Stands(cell.cell, RetryPolicy::kFailed);
      }));
}

std::optional<Eta::Left> TimeLeft(const FolderStatus& status) {
  std::vector<Eta::Running> running;
  std::vector<Eta::Waiting> waiting;
  std::vector<const CellResult*> completed;
  for (const auto& [cell, is_running, attempt] : status.cells) {
    const Eta::CellType type{cell.kind, cell.group_id};
    if (is_running) {
      Eta::Running entry{.type = type, .worker = running.size()};
      if (attempt) entry.elapsed_s = attempt->elapsed_s + attempt->silent_s;
      if (attempt && attempt->num_steps > 0) {
        const auto num_steps = static_cast<double>(attempt->num_steps);
        entry.share_done = static_cast<double>(attempt->step) / num_steps;
        entry.share_seen = static_cast<double>(attempt->step - attempt->first_step) / num_steps;
        entry.seen_s = attempt->elapsed_s - attempt->first_elapsed_s;
      }
      running.push_back(entry);
    } else if (!Stands(cell, RetryPolicy::kNone)) {
      waiting.push_back({.type = type});
    } else if (cell.state == CellState::kCompleted) {
      completed.push_back(&cell);
    }
  }
  if (running.empty()) return std::nullopt;
  Eta eta(running.size(), /*cells_per_worker=*/1);
  for (const CellResult* cell : completed) eta.Add({cell->kind, cell->group_id}, cell->wall_s);
  return eta.Estimate(running, waiting);
}

}  // namespace mixerbench::harness
