// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/read_file.h"

#include <fstream>

#include "base/error.h"

namespace mixerbench::tasks {

std::string ReadTextFile(const std::string& path, std::size_t max_bytes, const std::string& where) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  while (file.is_open() && file.good() && text.size() <= max_bytes) {
    const std::size_t size = text.size();
    text.resize(size + kBlock);
    file.read(text.data() + size, kBlock);
    text.resize(size + static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) {
    throw Error(ExitCode::kBadInput, where + ": cannot read '" + path + "'");
  }
  if (text.size() > max_bytes) {
    throw Error(ExitCode::kBadInput, where + ": '" + path + "' is larger than " +
                                         std::to_string(max_bytes >> 20) + " MiB");
  }
  return text;
}

}  // namespace mixerbench::tasks
