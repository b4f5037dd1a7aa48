// SPDX-License-Identifier: Apache-2.0
#include "harness/run/plan.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/file.h>

#include "base/array_of.h"
#include "base/error.h"
#include "io/json.h"
#include "io/object_reader.h"
#include "reports/result/result_json.h"

namespace mixerbench::harness {
namespace {

constexpr std::string_view kKind = "plan";
constexpr std::string_view kTraining = "train";
constexpr std::string_view kThroughput = "throughput";
constexpr std::size_t kIdDigits = 16;  // of the run id, in folder names

std::filesystem::path PlanPath(const std::filesystem::path& out) { return out / "sweep.json"; }

int OpenLock(const std::filesystem::path& out) {
  const std::string path = (out / "LOCK").string();
  const int file = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file < 0) throw Error(ExitCode::kOutput, path + ": " + std::strerror(errno));
  return file;
}

}  // namespace

std::optional<Plan> ReadPlan(const std::filesystem::path& out) {
  const std::filesystem::path path = PlanPath(out);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::string text = io::ReadFile(path);  // one that cannot be read may be whole
  try {
    const Value document = io::ParseJson(text, io::kReportLimits);
    if (document.Find("kind") == nullptr) return std::nullopt;
    reports::CheckDocument(document, kKind, "");
    const io::ObjectReader reader(document, "");
    return Plan{reader.String("name"), reader.Member("config"),
                reader.List("cells", reports::CellFromValue)};
  } catch (const Error& error) {
    throw Error(ExitCode::kBadInput,
                path.string() + ": " + error.what() +
                    "; remove the file and run the suite again (finished cells stay)");
  }
}

void WritePlan(const std::filesystem::path& out, const Plan& plan) {
  const Value document = Object{{"schema_version", reports::kSchemaVersion},
                                {"kind", kKind},
                                {"name", plan.name},
                                {"config", plan.config},
                                {"cells", ArrayOf(plan.cells, reports::CellToValue)}};
  io::WriteFileAtomically(PlanPath(out), io::DumpJson(document, 1));
}

std::string LabelOf(const std::string& name, std::string_view kind, std::uint64_t seed) {
  const std::string of_seed = kind == kThroughput ? "" : " seed " + std::to_string(seed);
  return name + of_seed + (kind == kTraining ? "" : " " + std::string(kind));
}

std::string LabelOf(const reports::CellResult& cell) {
  return LabelOf(cell.name, cell.kind, cell.seed);
}

std::filesystem::path WeightsPath(const std::filesystem::path& out, bool is_strict) {
  return is_strict ? out / "weights" / "strict" : out / "weights";
}

std::string_view DigitsOf(std::string_view id) { return id.substr(id.find(':') + 1); }

std::filesystem::path CellFolder(const std::filesystem::path& out, const std::string& run_id) {
  return out / "cells" / DigitsOf(run_id).substr(0, kIdDigits);
}

FolderLock::FolderLock(const std::filesystem::path& out) : file_(OpenLock(out)) {
  // A file system without locks only loses the protection against other processes.
  while (flock(file_.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
}

}  // namespace mixerbench::harness
