// SPDX-License-Identifier: Apache-2.0
#include "harness/run/run_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness/run/device_time.h"
#include "harness/run/folder_report.h"
#include "harness/run/plan.h"
#include "harness/training/checkpoint.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/result/result_json.h"

namespace mixerbench::harness {
namespace {

bool IsOurs(const std::filesystem::path& path) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "sweep.json",  "cells",      "weights", "report.json",  "report.md",
      "report.html", "report.csv", "LOCK",    kDeviceTimeFile};
  const std::string name = path.filename().string();
  // A killed writer leaves ".report.json.<process>.<number>", which the next one removes.
  const auto is_of = [&](std::string_view ours) {
    return name == ours || name.starts_with("." + std::string(ours) + ".");
  };
  return std::any_of(kNames.begin(), kNames.end(), is_of) || path.extension() == ".log";
}

void RequireDone(const std::error_code& error, const std::filesystem::path& out, const char* step) {
  if (!error) return;
  throw Error(ExitCode::kOutput, out.string() + ": cannot " + step + " the output folder: " +
                                     error.message() + "; choose another with --out");
}

}  // namespace

void RequireOnlyOurs(const std::filesystem::path& out) {
  std::error_code error;
  if (!std::filesystem::exists(out, error)) return;
  if (!std::filesystem::is_directory(out, error)) {
    RequireDone(std::make_error_code(std::errc::not_a_directory), out, "create");
  }
  for (const auto& entry : std::filesystem::directory_iterator(out, error)) {
    if (IsOurs(entry.path())) continue;
    throw Error(ExitCode::kOutput, out.string() + ": holds '" + entry.path().filename().string() +
                                       "', which is not ours; choose an empty folder with --out");
  }
  RequireDone(error, out, "list");
}

RunFolder::RunFolder(const std::filesystem::path& path) : path_(path) {
  RequireOnlyOurs(path_);
  std::error_code error;
  std::filesystem::create_directories(path_ / "cells", error);
  RequireDone(error, path_, "create");
}

std::filesystem::path RunFolder::CellPath(const Cell& cell) const {
  return CellFolder(path_, cell.run_id);
}

void RunFolder::MakeCellFolder(const Cell& cell) const {
  const auto folder = CellPath(cell);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(ExitCode::kOutput, folder.string() + ": " + error.message());
}

bool RunFolder::WriteConfig(const Cell& cell) const {
  const auto path = CellPath(cell) / "config.json";
  const std::string text = io::DumpJson(CellToValue(cell), 2);
  const bool is_new = !std::filesystem::exists(path);
  if (!is_new && std::filesystem::file_size(path) == text.size() &&
      io::ReadFile(path.string(), text.size()) == text) {
    return true;
  }
  io::WriteFileAtomically(path.string(), text);
  return is_new;
}

std::optional<reports::CellResult> RunFolder::LoadResult(const Cell& cell,
                                                         std::string* problem) const {
  const auto text = ReadResultText(CellPath(cell));
  if (!text) return std::nullopt;
  const auto path = CellPath(cell) / "result.json";
  try {
    auto result = reports::ParseCell(*text, path.string());
    if (result.run_id == "sha256:" + cell.run_id) return result;
    *problem = path.string() + ": belongs to another run; the cell runs again";
  } catch (const Error& error) {
    *problem = std::string(error.what()) + "; the cell runs again";
  }
  return std::nullopt;
}

std::filesystem::path CheckpointPath(const std::filesystem::path& cell_path, bool is_strict,
                                     std::int64_t batch_size) {
  std::string name = is_strict ? "strict" : "";
  if (batch_size > 0) name += (is_strict ? "-batch-" : "batch-") + std::to_string(batch_size);
  return name.empty() ? cell_path : cell_path / name;
}

void RemoveCheckpoints(const std::filesystem::path& cell_path) {
  CheckpointFolder::RemoveAll(cell_path);
  std::error_code ignored;  // what stays costs space
  for (const auto& entry : std::filesystem::directory_iterator(cell_path, ignored)) {
    if (entry.is_directory()) CheckpointFolder::RemoveAll(entry.path());
  }
}

std::optional<CellLock> CellLock::TryAcquire(const std::filesystem::path& cell_path) {
  const std::string path = (cell_path / "LOCK").string();
  const int descriptor = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor < 0) throw Error(ExitCode::kOutput, path + ": " + std::strerror(errno));
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return CellLock(descriptor, std::strerror(errno));
    close(descriptor);
    return std::nullopt;
  }
  return CellLock(descriptor, "");
}

CellLock::CellLock(CellLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), problem_(std::move(other.problem_)) {}

CellLock& CellLock::operator=(CellLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(problem_, other.problem_);
  return *this;
}

CellLock::~CellLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace mixerbench::harness
