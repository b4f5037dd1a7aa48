// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <langinfo.h>
#include <limits>
#include <optional>
#include <sys/file.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include "base/error.h"
#include "base/version.h"
#include "harness/cli/doctor.h"
#include "harness/run/free_space.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/text.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kLeastMemory = 512 * kMiB;
constexpr std::int64_t kEnoughMemory = 2048 * kMiB;
constexpr std::int64_t kLeastDisk = 100 * kMiB;
constexpr std::int64_t kEnoughDisk = 2048 * kMiB;
constexpr rlim_t kEnoughFiles = 1024;  // a worker has three pipes, each cell some files

// The first number behind `key` in a file of "key number" lines; nothing when it is not there.
std::optional<std::int64_t> ReadCount(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::strtoll(line.c_str() + key.size(), nullptr, 10);
  }
  return std::nullopt;
}

HealthCheck CheckBuild() {
  const Value tool = ToolVersion();
  const Value& commit = *tool.Find("git_commit");
  const Value& dirty = *tool.Find("git_dirty");
  const std::string build = tool.Find("build")->as_string();
  std::string text = fmt::format("mixerbench {}, {}, {}", tool.Find("version")->as_string(), build,
                                 tool.Find("compiler")->as_string());
  text +=
      commit.is_null() ? ", of no known commit" : ", commit " + commit.as_string().substr(0, 12);
  if (build != "opt") return {"build", Verdict::kWarn, text + "; its times say nothing"};
  if (!dirty.is_null() && dirty.as_bool()) {
    return {"build", Verdict::kWarn,
            text + " with changes: a leaderboard refuses what it measures"};
  }
  return {"build", Verdict::kOk, text};
}

// Cores that a control group allows, if it says so.
std::optional<double> CoresOfGroup() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return std::nullopt;
  return std::strtod(quota.c_str(), nullptr) / period;
}

HealthCheck CheckProcessor() {
  const unsigned cores = std::thread::hardware_concurrency();
  if (cores == 0) return {"processor", Verdict::kWarn, "the number of cores is not known"};
  std::string text = fmt::format("{} cores for this process", cores);
  const std::optional<double> allowed = CoresOfGroup();
  if (allowed && *allowed < cores) {
    return {"processor", Verdict::kWarn,
            fmt::format("{}, of which its control group grants {:.1f}; use --jobs {}", text,
                        *allowed, std::max(1, static_cast<int>(*allowed)))};
  }
  double load = 0;
  if (getloadavg(&load, 1) != 1) return {"processor", Verdict::kOk, text};
  text += fmt::format(", load {:.1f} in the last minute", load);
  if (load > 0.5 * cores) return {"processor", Verdict::kWarn, text + ": speeds will be too low"};
  return {"processor", Verdict::kOk, text};
}

// What a control group leaves, if it limits memory.
std::int64_t MemoryOfGroup() {
  std::int64_t limit = 0, used = 0;
  if (!(std::ifstream("/sys/fs/cgroup/memory.max") >> limit) ||
      !(std::ifstream("/sys/fs/cgroup/memory.current") >> used)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return limit - used;
}

HealthCheck CheckMemory() {
  const auto available_kib = ReadCount("/proc/meminfo", "MemAvailable:");
  if (!available_kib) return {"memory", Verdict::kWarn, "the free memory is not known"};
  const std::int64_t free = std::min(*available_kib * 1024, MemoryOfGroup());
  const std::string text = io::FormatBytes(free) + " free";
  if (free < kLeastMemory) return {"memory", Verdict::kFail, text + ": too little for a worker"};
  if (free < kEnoughMemory) return {"memory", Verdict::kWarn, text + ": use few --jobs"};
  return {"memory", Verdict::kOk, text};
}

HealthCheck CheckOpenFiles() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return {"open files", Verdict::kWarn, std::strerror(errno)};
  }
  const std::string text = limit.rlim_cur == RLIM_INFINITY
                               ? "no limit"
                               : fmt::format("at most {} at once", limit.rlim_cur);
  if (limit.rlim_cur >= kEnoughFiles) return {"open files", Verdict::kOk, text};
  return {"open files", Verdict::kWarn, text + "; raise it with ulimit -n 4096"};
}

// Numbers are written as ever in the user's locale, and what is UTF-8 can be shown.
HealthCheck CheckLocale() {
  const char* name = std::setlocale(LC_ALL, "");
  const std::string text = name == nullptr ? "" : name;
  const std::string codes = nl_langinfo(CODESET);
  const std::string number = io::DumpJson(Value(0.5));
  const double parsed = io::ParseJson("0.5").as_double();
  std::setlocale(LC_ALL, "C");  // as it was
  if (number != "0.5" || parsed != 0.5) {
    return {"locale", Verdict::kFail,
            text + ": 0.5 is written as " + number + "; set LC_ALL=C.UTF-8"};
  }
  if (text.empty()) {
    return {"locale", Verdict::kWarn, "LANG or LC_ALL name one that is not installed"};
  }
  if (codes == "UTF-8") return {"locale", Verdict::kOk, text + ", numbers keep their point"};
  return {"locale", Verdict::kWarn,
          text + " is " + codes + ": tables are UTF-8; set LC_ALL=C.UTF-8"};
}

// Locks a file twice; "" when the second lock waits for the first.
std::string ProblemWithLocks(const fs::path& file) {
  const auto open_file = [&] { return open(file.c_str(), O_RDWR | O_CLOEXEC); };
  const io::Descriptor first(open_file());
  const io::Descriptor second(open_file());
  if (flock(first.get(), LOCK_EX | LOCK_NB) != 0) {
    return std::string("no locks (") + std::strerror(errno) +
           "): two runs at once may do the same cells";
  }
  if (flock(second.get(), LOCK_EX | LOCK_NB) == 0) return "locks have no effect";
  return "";
}

}  // namespace

std::vector<HealthCheck> CheckMachine() {
  return {CheckBuild(), CheckProcessor(), CheckMemory(), CheckOpenFiles(), CheckLocale()};
}

HealthCheck CheckFolder(const std::string& name, const fs::path& folder) {
  const fs::path nearest = NearestFolder(folder);
  // A run that starts meanwhile takes it for a temporary file of ours.
  const fs::path file = nearest / fmt::format(".mixerbench-doctor.tmp{}", getpid());
  std::string problem, failure;
  try {
    io::WriteFileAtomically(file, "doctor");
    if (io::ReadFile(file) != "doctor") failure = "a file has another content than was written";
    problem = ProblemWithLocks(file);
  } catch (const Error& thrown) {
    failure = thrown.what();
  }
  std::error_code error;
  fs::remove(file, error);
  if (!failure.empty()) return {name, Verdict::kFail, failure};
  const auto free = FreeSpace(nearest);
  if (!free) return {name, Verdict::kWarn, nearest.string() + ": the free space is not known"};
  const std::string text = fmt::format("{}: {} free", nearest.string(), io::FormatBytes(*free));
  if (!problem.empty()) return {name, Verdict::kWarn, text + "; " + problem};
  if (*free < kLeastDisk) return {name, Verdict::kFail, text};
  if (*free < kEnoughDisk)
    return {name, Verdict::kWarn, text + "; checkpoints and weights need some"};
  return {name, Verdict::kOk, text + ", files and locks work"};
}

}  // namespace mixerbench::harness
