// SPDX-License-Identifier: Apache-2.0
#include "harness/python/watch.h"

#include <algorithm>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "harness/python/host.h"
#include "io/json.h"

namespace mixerbench::harness {
namespace {

constexpr std::size_t kMaxPlaces = 3;

struct Frame {
  std::string file;
  std::string line;
  std::string function;
};

// '  File "mine.py", line 14 in forward'; nothing else.
std::optional<Frame> ParseFrame(const std::string& text) {
  constexpr std::string_view kFile = "  File \"", kLine = "\", line ", kIn = " in ";
  if (!text.starts_with(kFile)) return std::nullopt;
  const std::size_t line = text.find(kLine);
  const std::size_t in = line == std::string::npos ? line : text.find(kIn, line);
  if (in == std::string::npos) return std::nullopt;
  const std::size_t digits = line + kLine.size();
  const std::string number = text.substr(digits, in - digits);
  if (number.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return Frame{text.substr(kFile.size(), line - kFile.size()), number,
               text.substr(in + kIn.size())};
}

// What is to be told of one thread.
struct Thread {
  std::vector<std::string> places = {};  // innermost first
  bool was_called = false;               // by the engine
};

std::vector<Thread> ParseThreads(std::string_view dump, const std::vector<std::string>& hidden) {
  std::vector<Thread> threads;
  std::istringstream lines{std::string(dump)};
  for (std::string line; std::getline(lines, line);) {
    if (line.find("(most recent call first)") != std::string::npos) threads.emplace_back();
    const std::optional<Frame> frame = ParseFrame(line);
    if (!frame || threads.empty()) continue;
    const auto is_of = [&](const std::string& folder) { return frame->file.starts_with(folder); };
    Thread& thread = threads.back();
    if (!hidden.empty() && is_of(hidden.front())) thread.was_called = true;
    if (std::any_of(hidden.begin(), hidden.end(), is_of)) continue;
    thread.places.push_back(std::filesystem::path(frame->file).filename().string() + ":" +
                            frame->line + " in " + frame->function);
  }
  return threads;
}

std::vector<std::string> HiddenFolders() {
  std::vector<std::string> folders;
  std::istringstream lines(CallPython("hidden_folders", "").text);
  for (std::string line; std::getline(lines, line);) folders.push_back(line);
  return folders;
}

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

PythonWatch::PythonWatch(const std::filesystem::path& file, WhenAsked when_asked) {
  if (!HasPython()) return;
  hidden_ = HiddenFolders();
  const Object order{{"path", file.string()}, {"ends", when_asked == WhenAsked::kEnds}};
  file_ = CallPython("watch", io::DumpJson(order)).text;
}

PythonWatch::~PythonWatch() {
  if (file_.empty()) return;
  try {
    CallPython("unwatch", "");
  } catch (const std::exception&) {  // nobody is left to tell
  }
}

std::string PythonWatch::Here() const {
  if (file_.empty()) return "";
  std::raise(kAskWhere);  // handled in this thread, before it returns
  return PlacesIn(ReadAll(file_), hidden_);
}

std::string PlacesIn(std::string_view dump, const std::vector<std::string>& hidden) {
  const Thread* chosen = nullptr;
  const std::vector<Thread> threads = ParseThreads(dump, hidden);
  for (const Thread& thread : threads) {
    if (thread.places.empty()) continue;
    if (chosen == nullptr || (thread.was_called && !chosen->was_called)) chosen = &thread;
  }
  std::string text;
  if (chosen == nullptr) return text;
  for (std::size_t i = std::min(kMaxPlaces, chosen->places.size()); i > 0; --i) {
    text += (text.empty() ? "" : "; ") + chosen->places[i - 1];
  }
  return text;
}

std::string PlacesInFile(const std::filesystem::path& file) {
  if (!HasPython() || !std::filesystem::exists(file)) return "";
  return PlacesIn(ReadAll(file), HiddenFolders());
}

}  // namespace mixerbench::harness
