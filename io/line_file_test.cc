// SPDX-License-Identifier: Apache-2.0
#include "io/line_file.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/atomic_file.h"

#include "tests/support/catch2.h"

namespace mixerbench::io {
namespace {

std::filesystem::path PathOf(const std::string& name) {
  return std::filesystem::path(std::getenv("TEST_TMPDIR")) / name;
}

std::vector<std::string> LinesOf(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  ReadLines(path, [&](std::string_view line, std::int64_t number) {
    lines.emplace_back(line);
    CHECK(number == static_cast<std::int64_t>(lines.size()));
  });
  return lines;
}

TEST_CASE("line files: what is written is read, plain and compressed") {
  std::vector<std::string> lines = {"", "a", std::string(1000, 'x')};
  for (int i = 0; i < 100'000; ++i) lines.push_back("line " + std::to_string(i));
  for (const std::string name : {"lines.jsonl", "lines.jsonl.zst"}) {
    CAPTURE(name);
    for (const std::string copy : {"", "again-"}) {
      LineWriter writer(PathOf(copy + name));
      for (const std::string& line : lines) writer.Add(line);
      CHECK_FALSE(std::filesystem::exists(PathOf(copy + name)));
      writer.Commit();
    }
    CHECK(LinesOf(PathOf(name)) == lines);
    CHECK(ReadFile(PathOf(name)) == ReadFile(PathOf("again-" + name)));
  }
  CHECK(std::filesystem::file_size(PathOf("lines.jsonl.zst")) * 4 <
        std::filesystem::file_size(PathOf("lines.jsonl")));

  LineWriter nothing(PathOf("nothing.zst"));
  nothing.Commit();
  CHECK(LinesOf(PathOf("nothing.zst")).empty());
}

TEST_CASE("line files: a last line without its end counts") {
  WriteFileAtomically(PathOf("open.jsonl"), "a\nb");
  CHECK(LinesOf(PathOf("open.jsonl")) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("line files: damage is named") {
  LineWriter writer(PathOf("whole.zst"));
  for (int i = 0; i < 10'000; ++i) writer.Add(std::to_string(i));
  writer.Commit();
  const std::string bytes = ReadFile(PathOf("whole.zst"));
  const auto refusal = [](const std::string& text) -> std::string {
    WriteFileAtomically(PathOf("damaged.zst"), text);
    try {
      ReadLines(PathOf("damaged.zst"), [](std::string_view, std::int64_t) {});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK_THAT(refusal(bytes.substr(0, bytes.size() / 2)), Catch::Contains("it is cut off"));
  std::string flipped = bytes;
  flipped[flipped.size() / 2] ^= 0x40;
  CHECK_THAT(refusal(flipped), Catch::Contains("is no whole zstd file"));
  CHECK_THAT(refusal("{}\n"), Catch::Contains("is no whole zstd file"));
  CHECK_THAT(refusal(""), Catch::Contains("it is cut off"));
  WriteFileAtomically(PathOf("long.jsonl"), std::string((1 << 20) + 1, 'x'));
  CHECK_THROWS_WITH(LinesOf(PathOf("long.jsonl")), Catch::Contains("line 1 is above 1 MiB"));
}

}  // namespace
}  // namespace mixerbench::io
