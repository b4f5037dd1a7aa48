// SPDX-License-Identifier: Apache-2.0
#include "io/atomic_file.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sha256.h"

#include "tests/support/catch2.h"

namespace mixerbench::io {
namespace {

namespace fs = std::filesystem;

// A fresh folder, removed at the end.
class Folder {
 public:
  Folder() {
    const char* base = std::getenv("TEST_TMPDIR");
    std::string pattern = std::string(base ? base : "/tmp") + "/atomic_file.XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  std::ptrdiff_t NumEntries() const {
    return std::distance(fs::directory_iterator(path_), fs::directory_iterator());
  }

 private:
  fs::path path_;
};

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
  const Folder folder;
  const fs::path path = folder / "report.json";
  for (const std::string& text :
       {std::string("first"), std::string(), std::string(100'000, '\0')}) {
    WriteFileAtomically(path, text);
    CHECK(ReadFile(path) == text);
    CHECK(folder.NumEntries() == 1);
  }
}

TEST_CASE("atomic file: permissions follow the umask") {
  const Folder folder;
  const mode_t old = ::umask(027);
  WriteFileAtomically(folder / "a", "x");
  ::umask(old);
  struct stat status {};
  REQUIRE(::stat((folder / "a").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
}

TEST_CASE("atomic file: a failed write keeps the old file and leaves no temporary") {
  const Folder folder;
  const fs::path path = folder / "report.json";
  WriteFileAtomically(path, "old");
  std::string message;
  {
    const FileSizeLimit limit(1000);
    message =
        Failure(ExitCode::kOutput, [&] { WriteFileAtomically(path, std::string(5000, 'x')); });
  }
  CHECK(message == path.string() + ": cannot write: File too large");
  CHECK(ReadFile(path) == "old");
  CHECK(folder.NumEntries() == 1);
}

TEST_CASE("atomic file: pieces in any order, seen under the name only when complete") {
  const Folder folder;
  const fs::path path = folder / "data.npy";
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
  CHECK(folder.NumEntries() == 1);
}

TEST_CASE("atomic file: what a killed writer left is removed, what a living one writes is not") {
  const Folder folder;
  const fs::path path = folder / "data.npy";
  WriteFileAtomically(folder / ".data.npy.4194305.0", "left behind");
  WriteFileAtomically(folder / ".data.npy.backup", "somebody's");
  AtomicFile living(path);
  living.WriteAt(0, "living");
  REQUIRE(folder.NumEntries() == 3);
  RemoveAbandoned(path);
  CHECK(folder.NumEntries() == 2);
  CHECK(fs::exists(folder / ".data.npy.backup"));
  living.Commit();
  CHECK(ReadFile(path) == "living");
}

TEST_CASE("atomic file: a link stays, what it points to is written") {
  const Folder folder;
  fs::create_directory(folder / "elsewhere");
  WriteFileAtomically(folder / "elsewhere/data", "old");
  fs::create_symlink("elsewhere/data", folder / "link");
  fs::create_symlink("link", folder / "second");
  fs::create_symlink("elsewhere/new", folder / "dangling");
  WriteFileAtomically(folder / "second", "new");
  WriteFileAtomically(folder / "dangling", "made");
  CHECK(fs::is_symlink(folder / "second"));
  CHECK(fs::is_symlink(folder / "dangling"));
  CHECK(ReadFile(folder / "elsewhere/data") == "new");
  CHECK(ReadFile(folder / "elsewhere/new") == "made");
  WriteFileAtomically(folder / "elsewhere/.data.4194305.0", "left behind");
  RemoveAbandoned(folder / "link");
  CHECK_FALSE(fs::exists(folder / "elsewhere/.data.4194305.0"));
  CHECK(folder.NumEntries() == 4);
}

TEST_CASE("atomic file: pipes and circles of links are refused and stay") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("pipe", folder / "link");
  fs::create_symlink("circle", folder / "circle");
  const auto refusal = [&](const std::string& name) {
    return Failure(ExitCode::kOutput, [&] { WriteFileAtomically(folder / name, "x"); });
  };
  CHECK_THAT(refusal("pipe"), Catch::EndsWith("pipe: is a pipe; give the name of a file"));
  CHECK_THAT(refusal("link"), Catch::EndsWith("link: is a pipe; give the name of a file"));
  CHECK_THAT(refusal("circle"), Catch::Contains("is a link in a circle"));
  CHECK(fs::is_fifo(folder / "pipe"));
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(folder.NumEntries() == 3);
}

TEST_CASE("input file: pieces of a file, and nothing past its end") {
  const Folder folder;
  WriteFileAtomically(folder / "f", "0123456789");
  const InputFile file(folder / "f");
  CHECK(file.size() == 10);
  std::string piece(3, ' ');
  file.ReadAt(7, piece);
  CHECK(piece == "789");
  CHECK_THROWS_AS(file.ReadAt(8, piece), std::logic_error);
}

TEST_CASE("atomic file: errors name the path and the cause") {
  const Folder folder;
  CHECK_THAT(Failure(ExitCode::kOutput, [&] { WriteFileAtomically(folder / "no/x", "x"); }),
             Catch::Contains("no/x: cannot create a file in its folder: No such file"));
  fs::create_directory(folder / "d");
  CHECK_THAT(Failure(ExitCode::kOutput, [&] { WriteFileAtomically(folder / "d", "x"); }),
             Catch::EndsWith("d: is a folder; give the name of a file"));
  CHECK(folder.NumEntries() == 1);
  CHECK_THAT(Failure(ExitCode::kBadInput, [&] { ReadFile(folder / "absent"); }),
             Catch::EndsWith("absent: cannot read: No such file or directory"));
  CHECK_THAT(Failure(ExitCode::kBadInput, [&] { ReadFile(folder / "d"); }),
             Catch::EndsWith("d: cannot read: not a regular file"));
  WriteFileAtomically(folder / "f", "12345");
  CHECK(ReadFile(folder / "f", 5) == "12345");
  CHECK_THAT(Failure(ExitCode::kBadInput, [&] { ReadFile(folder / "f", 4); }),
             Catch::EndsWith("larger than the limit of 4 bytes"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(Failure(ExitCode::kBadInput, [&] { ReadFile(folder / "pipe"); }),
             Catch::EndsWith("not a regular file"));
}

}  // namespace
}  // namespace mixerbench::io
