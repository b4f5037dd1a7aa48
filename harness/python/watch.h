// Where the Python code of a process stands that hangs or has crashed. Python's faulthandler writes
// it to a file without the interpreter's lock, which whoever hangs may hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mixerbench::harness {

// In the folder of a cell that runs Python: what watching it has left.
inline constexpr char kTracebackFile[] = "traceback.txt";

// Asks a process that is watched where it stands. Any other it ends, as it does one that kEnds.
inline constexpr int kAskWhere = SIGUSR2;

enum class WhenAsked { kGoesOn, kEnds };

// Watches this process for as long as it lives, where Python is around it; one at a time.
class PythonWatch {
 public:
  // `file` gets the tracebacks of exceptions too, and is removed at the end when it is empty. An
  // empty path: a file of its own, of which nothing is left.
  PythonWatch(const std::filesystem::path& file, WhenAsked when_asked);
  ~PythonWatch();
  PythonWatch(const PythonWatch&) = delete;
  PythonWatch& operator=(const PythonWatch&) = delete;

  // As PlacesIn, of now. For one that goes on when it is asked.
  std::string Here() const;

 private:
  std::string file_;                 // empty without Python
  std::vector<std::string> hidden_;  // asked for while Python answers
};

// "mine.py:14 in forward; mine.py:30 in helper", innermost last: the three innermost places of user
// code in what faulthandler has written, of the thread that the engine has called it in if that can
// be told. A file whose name starts with one of `hidden`, the first of which is the folder of the
// package mixerbench, is no user's. Empty when there is none.
std::string PlacesIn(std::string_view dump, const std::vector<std::string>& hidden);

// The same of the file that a watched process has left. Empty when there is no file, or no Python.
std::string PlacesInFile(const std::filesystem::path& file);

}  // namespace mixerbench::harness
