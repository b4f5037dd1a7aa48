// SPDX-License-Identifier: Apache-2.0
#include "harness/run/device_time.h"

#include <cerrno>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <unistd.h>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/json.h"

namespace mixerbench::harness {
namespace {

constexpr double kInterval_s = 10;

double SecondsOf(const std::string& line) {
  try {
    const Value note = io::ParseJson(line);
    const Value* seconds = note.Find("device_s");
    return seconds != nullptr && seconds->is_number() ? seconds->as_double() : 0;
  } catch (const std::exception&) {
    return 0;
  }
}

}  // namespace

double NotedDeviceTime(const std::filesystem::path& out) {
  double sum = 0;
  std::ifstream file(out / kDeviceTimeFile);
  for (std::string line; std::getline(file, line);) sum += SecondsOf(line);
  return sum;
}

DeviceTime::DeviceTime(const std::filesystem::path& out)
    : out_(out), noted_(NotedDeviceTime(out)) {}

DeviceTime::~DeviceTime() {
  try {
    Note();
  } catch (const std::exception&) {  // the run has ended; its report is written all the same
  }
}

void DeviceTime::Add(double seconds) {
  fresh_ += seconds;
  if (fresh_ >= kInterval_s) Note();
}

void DeviceTime::Note() {
  if (fresh_ <= 0) return;
  const std::string path = (out_ / kDeviceTimeFile).string();
  const io::Descriptor file(
      open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  // A line end in front as well: what a crash tore before must not swallow this line.
  const std::string line = "\n" + io::DumpJson(Object{{"device_s", fresh_}}) + "\n";
  const ssize_t count = file.get() < 0 ? -1 : write(file.get(), line.data(), line.size());
  if (count < 0) throw Error(ExitCode::kOutput, path + ": " + std::strerror(errno));
  if (count < static_cast<ssize_t>(line.size())) {  // which is no error of the call
    throw Error(ExitCode::kOutput, path + ": " + std::strerror(ENOSPC));
  }
  fresh_ = 0;
  noted_ = NotedDeviceTime(out_);
}

}  // namespace mixerbench::harness
