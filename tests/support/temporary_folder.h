// A folder for the files of one test case.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch2.h"

namespace mixerbench::testing {

// Empty at first; goes when the case ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "mixerbench_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // What lies in it, in order of names.
  std::vector<std::filesystem::path> Files() const {
    std::set<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) files.insert(entry.path());
    return {files.begin(), files.end()};
  }
  // The only file in it.
  std::filesystem::path TheFile() const {
    const auto files = Files();
    REQUIRE(files.size() == 1);
    return files.front();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace mixerbench::testing
