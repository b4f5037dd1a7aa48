// SPDX-License-Identifier: Apache-2.0
#include "harness/run/log_file.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "base/error.h"
#include "io/atomic_file.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

fs::path Path(const std::string& name) { return fs::path(std::getenv("TEST_TMPDIR")) / name; }

// The lines of a log without their times.
std::vector<std::string> Lines(const fs::path& path) {
  constexpr std::size_t kTimeLength = 21;  // "2026-11-21T03:55:00Z "
  std::istringstream text(io::ReadFile(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    REQUIRE(line.size() >= kTimeLength);
    CHECK(line[10] == 'T');
    CHECK(line.substr(kTimeLength - 2, 2) == "Z ");
    lines.push_back(line.substr(kTimeLength));
  }
  return lines;
}

TEST_CASE("log: lines of stderr and those for the file alone, appended") {
  std::ostringstream outer;
  std::streambuf* before = std::cerr.rdbuf(outer.rdbuf());
  const fs::path path = Path("run.log");
  {
    LogFile log(path);
    std::cerr << "first " << 1 << "\n"
              << "\r\033[Kstatus 1"
              << "\r\033[Kstatus 2";
    std::cerr << "\r\033[Kdone\n";
    log.Write("quiet");
    std::cerr << "unfinished";
  }
  {
    const LogFile again(path);
    std::cerr << "\nsecond\n";
  }
  std::cerr << "after\n";
  std::cerr.rdbuf(before);
  CHECK(Lines(path) == std::vector<std::string>{"first 1", "done", "quiet", "", "second"});
  CHECK_THAT(outer.str(), Catch::Contains("first 1\n\r\033[Kstatus 1") &&
                              Catch::Contains("unfinished\nsecond\nafter\n"));
  CHECK(outer.str().find("quiet") == std::string::npos);
}

TEST_CASE("log: what is no file is refused") {
  CHECK_THROWS_AS(LogFile(Path("nowhere") / "run.log"), Error);
  CHECK_THROWS_AS(LogFile(Path(".")), Error);
  REQUIRE(mkfifo(Path("pipe").c_str(), 0644) == 0);
  CHECK_THROWS_AS(LogFile(Path("pipe")), Error);
  CHECK_THROWS_WITH(LogFile("/dev/full"), Catch::Contains("is no file"));
}

}  // namespace
}  // namespace mixerbench::harness
