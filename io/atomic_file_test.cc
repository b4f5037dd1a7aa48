// SPDX-License-Identifier: Apache-2.0
#include "io/atomic_file.h"

#include <csignal>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sha256.h"
#include "tests/support/temporary_folder.h"

#include "tests/support/catch2.h"

namespace mixerbench::io {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

// Every write beyond `bytes` fails with EFBIG: a disk that is full, for this process.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit old_{};
};

template <typename Action>
std::string Failure(ExitCode code, Action action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "no error";
}

TEST_CASE("atomic file: what is written is read, and replaces what was there") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "report.json";
  for (const std::string& text :
       {std::string("first"), std::string(), std::string(100'000, '\0')}) {
    WriteFileAtomically(path, text);
    CHECK(ReadFile(path) == text);
    CHECK(folder.Files().size() == 1);
  }
}

TEST_CASE("atomic file: permissions follow the umask") {
  const TemporaryFolder folder;
  const mode_t old = ::umask(027);
  WriteFileAtomically(folder.path() / "a", "x");
  ::umask(old);
  struct stat status {};
  REQUIRE(::stat((folder.path() / "a").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
}

TEST_CASE("atomic file: a failed write keeps the old file and leaves no temporary") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "report.json";
  WriteFileAtomically(path, "old");
  std::string message;
  {
    const FileSizeLimit limit(1000);
    message =
        Failure(ExitCode::kOutput, [&] { WriteFileAtomically(path, std::string(5000, 'x')); });
  }
  CHECK(message == path.string() + ": cannot write: File too large");
  CHECK(ReadFile(path) == "old");
  CHECK(folder.Files().size() == 1);
}

TEST_CASE("atomic file: pieces in any order, seen under the name only when complete") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "data.npy";
  {
    AtomicFile file(path);
    file.WriteAt(4, "5678");
    file.WriteAt(0, "1234");
    CHECK_FALSE(fs::exists(path));
    file.Commit();
  }
  CHECK(ReadFile(path) == "12345678");
  CHECK(HashFile(path) == Sha256Hex("12345678"));
  { AtomicFile(path).WriteAt(0, "given up"); }
  CHECK(ReadFile(path) == "12345678");
  CHECK(folder.Files().size() == 1);
}

TEST_CASE("atomic file: what a killed writer left is removed, what a living one writes is not") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "data.npy";
  WriteFileAtomically(folder.path() / ".data.npy.4194305.0", "left behind");
  WriteFileAtomically(folder.path() / ".data.npy.backup", "somebody's");
  AtomicFile living(path);
  living.WriteAt(0, "living");
  REQUIRE(folder.Files().size() == 3);
  RemoveAbandoned(path);
  CHECK(folder.Files().size() == 2);
  CHECK(fs::exists(folder.path() / ".data.npy.backup"));
  living.Commit();
  CHECK(ReadFile(path) == "living");
}

TEST_CASE("atomic file: a link stays, what it points to is written") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "elsewhere");
  WriteFileAtomically(folder.path() / "elsewhere/data", "old");
  fs::create_symlink("elsewhere/data", folder.path() / "link");
  fs::create_symlink("link", folder.path() / "second");
  fs::create_symlink("elsewhere/new", folder.path() / "dangling");
  WriteFileAtomically(folder.path() / "second", "new");
  WriteFileAtomically(folder.path() / "dangling", "made");
  CHECK(fs::is_symlink(folder.path() / "second"));
  CHECK(fs::is_symlink(folder.path() / "dangling"));
  CHECK(ReadFile(folder.path() / "elsewhere/data") == "new");
  CHECK(ReadFile(folder.path() / "elsewhere/new") == "made");
  WriteFileAtomically(folder.path() / "elsewhere/.data.4194305.0", "left behind");
  RemoveAbandoned(folder.path() / "link");
  CHECK_FALSE(fs::exists(folder.path() / "elsewhere/.data.4194305.0"));
  CHECK(folder.Files().size() == 4);
}

TEST_CASE("atomic file: pipes and circles of links are refused and stay") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("pipe", folder.path() / "link");
  fs::create_symlink("circle", folder.path() / "circle");
  const auto refusal = [&](const std::string& name) {
    return Failure(ExitCode::kOutput, [&] { WriteFileAtomically(folder.path() / name, "x"); });
  };
  CHECK_THAT(refusal("pipe"), Catch::EndsWith("pipe: is a pipe; give the name of a file"));
  CHECK_THAT(refusal("link"), Catch::EndsWith("link: is a pipe; give the name of a file"));
  CHECK_THAT(refusal("circle"), Catch::Contains("is a link in a circle"));
  CHECK(fs::is_fifo(folder.path() / "pipe"));
  CHECK(fs::is_symlink(folder.path() / "link"));
  CHECK(folder.Files().size() == 3);
}

TEST_CASE("input file: pieces of a file, and nothing past its end") {
  const TemporaryFolder folder;
  WriteFileAtomically(folder.path() / "f", "0123456789");
  const InputFile file(folder.path() / "f");
  CHECK(file.size() == 10);
  std::string piece(3, ' ');
  file.ReadAt(7, piece);
  CHECK(piece == "789");
  CHECK_THROWS_AS(file.ReadAt(8, piece), std::logic_error);
}

TEST_CASE("atomic file: errors name the path and the cause") {
  const TemporaryFolder folder;
  CHECK_THAT(Failure(ExitCode::kOutput, [&] { WriteFileAtomically(folder.path() / "no/x", "x"); }),
             Catch::Contains("no/x: cannot create a file in its folder: No such file"));
  fs::create_directory(folder.path() / "d");
  CHECK_THAT(Failure(ExitCode::kOutput, [&] { WriteFileAtomically(folder.path() / "d", "x"); }),
             Catch::EndsWith("d: is a folder; give the name of a file"));
  CHECK(folder.Files().size() == 1);
  CHECK_THAT(Failure(ExitCode::kBadInput, [&] { ReadFile(folder.path() / "absent"); }),
             Catch::EndsWith("absent: cannot read: No such file or directory"));
  CHECK_THAT(Failure(ExitCode::kBadInput, [&] { ReadFile(folder.path() / "d"); }),
             Catch::EndsWith("d: cannot read: not a regular file"));
  WriteFileAtomically(folder.path() / "f", "12345");
  CHECK(ReadFile(folder.path() / "f", 5) == "12345");
  CHECK_THAT(Failure(ExitCode::kBadInput, [&] { ReadFile(folder.path() / "f", 4); }),
             Catch::EndsWith("larger than the limit of 4 bytes"));
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(Failure(ExitCode::kBadInput, [&] { ReadFile(folder.path() / "pipe"); }),
             Catch::EndsWith("not a regular file"));
}

}  // namespace
}  // namespace mixerbench::io
