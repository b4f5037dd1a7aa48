// SPDX-License-Identifier: Apache-2.0
#include "io/sample_file.h"

#include <string>
#include <vector>

#include "base/error.h"

#include "tests/support/catch2.h"

namespace mixerbench::io {
namespace {

constexpr std::int64_t kSeqLen = 3;
const std::vector<std::int32_t> kInputs = {1, 2, 3, 4, 5, 6, 7, 8, 9, 2147483647, 0, -2147483647};
const std::vector<std::int32_t> kLabels = {-100, 2, -100, -100, -100, 6, 7, -100, 9, 1, 2, 3};

// The file that samples 10..13 make when they come in runs of `run` rows.
std::string Encode(SampleFormat format, ElementType dtype, std::size_t run, int num_threads = 1) {
  std::string file;
  const PutBytes put = [&](std::uint64_t offset, std::string_view bytes) {
    if (file.size() < offset + bytes.size()) file.resize(offset + bytes.size(), '?');
    file.replace(offset, bytes.size(), bytes);
  };
  SampleEncoder encoder(format, dtype, 4, kSeqLen);
  encoder.Begin(put);
  const std::size_t length = kSeqLen;
  for (std::size_t row = 0; row < 4; row += run) {
    const std::size_t count = std::min(run, 4 - row) * length;
    encoder.Add({.first_index = 10 + row,
                 .inputs = std::span(kInputs).subspan(row * length, count),
                 .labels = std::span(kLabels).subspan(row * length, count),
                 .append_meta =
                     [&](std::int64_t r, std::string& json) {
                       json += ",\"row\":" + std::to_string(row + static_cast<std::size_t>(r));
                     }},
                put, num_threads);
  }
  return file;
}

std::string Failure(const std::string& bytes, SampleFormat format) {
  try {
    ReadSamples(bytes, format, "f");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST_CASE("sample file: the bytes do not depend on runs and threads") {
  for (const SampleFormat format :
       {SampleFormat::kJsonl, SampleFormat::kNpy, SampleFormat::kSafetensors}) {
    for (const ElementType dtype : {ElementType::kI32, ElementType::kI64}) {
      const std::string whole = Encode(format, dtype, 4);
      for (const std::size_t run : {1, 2, 3}) CHECK(Encode(format, dtype, run) == whole);
      for (const int num_threads : {2, 3, 9}) CHECK(Encode(format, dtype, 4, num_threads) == whole);
    }
  }
}

TEST_CASE("sample file: what is written is read") {
  for (const SampleFormat format :
       {SampleFormat::kJsonl, SampleFormat::kNpy, SampleFormat::kSafetensors}) {
    for (const ElementType dtype : {ElementType::kI32, ElementType::kI64}) {
      const SampleTable table = ReadSamples(Encode(format, dtype, 3), format, "f");
      CHECK(table.num_samples == 4);
      CHECK(table.seq_len == kSeqLen);
      CHECK(table.inputs == std::vector<std::int64_t>(kInputs.begin(), kInputs.end()));
      CHECK(table.labels == std::vector<std::int64_t>(kLabels.begin(), kLabels.end()));
    }
  }
}

TEST_CASE("sample file: a line is the row of the documents") {
  CHECK(Encode(SampleFormat::kJsonl, ElementType::kI32, 4)
            .starts_with("{\"inputs\":[1,2,3],\"labels\":[-100,2,-100],"
                         "\"meta\":{\"index\":10,\"row\":0}}\n{\"inputs\":[4,"));
}

TEST_CASE("sample file: other shapes and cut files are refused") {
  CHECK_THAT(
      Failure(NpyHeader(ElementType::kI32, std::vector<std::int64_t>{0, 3}), SampleFormat::kNpy),
      Catch::Contains("[2, num_samples, seq_len]"));
  CHECK_THAT(Failure(SafetensorsHeader({{"inputs", {ElementType::kI32, {0, 3}}}}),
                     SampleFormat::kSafetensors),
             Catch::Contains("inputs and labels"));
  CHECK_THAT(Failure(SafetensorsHeader({{"inputs", {ElementType::kF32, {0, 3}}},
                                        {"labels", {ElementType::kF32, {0, 3}}}}),
                     SampleFormat::kSafetensors),
             Catch::Contains("int32 or int64"));
  const std::string row = "{\"inputs\":[1,2],\"labels\":[1,2]}\n";
  CHECK(Failure(row + row, SampleFormat::kJsonl) == "accepted");
  CHECK_THAT(Failure(row + row.substr(0, row.size() - 1), SampleFormat::kJsonl),
             Catch::Contains("f: line 2: is not ended"));
  CHECK_THAT(Failure(row + "{\"inputs\":[1],\"labels\":[1]}\n", SampleFormat::kJsonl),
             Catch::Contains("line 2: inputs and labels are not as long"));
  CHECK_THAT(Failure("{\"inputs\":[1.5],\"labels\":[1]}\n", SampleFormat::kJsonl),
             Catch::Contains("no integer"));
  CHECK_THAT(Failure("{\"labels\":[1]}\n", SampleFormat::kJsonl),
             Catch::Contains("inputs is no list"));
  CHECK_THAT(Failure("{\n", SampleFormat::kJsonl), Catch::Contains("f: line 1: line 1, column"));
}

}  // namespace
}  // namespace mixerbench::io
