// SPDX-License-Identifier: Apache-2.0
#include "io/dataset_manifest.h"

#include <limits>
#include <string>

#include "base/error.h"
#include "io/json.h"

#include "tests/support/catch2.h"

namespace mixerbench::io {
namespace {

DatasetManifest Example() {
  return {.generator = Object{{"version", "0.1.0"}},
          .task = "mqar",
          .task_version = 3,
          .task_code = std::string(64, 'a'),
          .preset = "mqar/tiny",
          .seed = std::numeric_limits<std::uint64_t>::max(),
          .split = 2,
          .labels = "scored",
          .format = "npy",
          .dtype = "I32",
          .parts = {{.name = "0",
                     .params = Object{{"vocab_size", 64}},
                     .canon = "mqar;L=16",
                     .first = 5,
                     .count = 30,
                     .first_index = 1005,
                     .seq_len = 16,
                     .vocab_size = 64,
                     .sha256 = std::string(64, 'b'),
                     .warnings = {"one", "two"},
                     .files = {{.name = "a-00000-of-00002.npy",
                                .first = 5,
                                .count = 10,
                                .num_bytes = 1408,
                                .sha256 = std::string(64, 'c')},
                               {.name = "a-00001-of-00002.npy",
                                .first = 15,
                                .count = 20,
                                .num_bytes = 2688,
                                .sha256 = std::string(64, 'd')}}}}};
}

std::string Failure(const std::string& text) {
  try {
    ParseManifest(text, "m.json");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

// The example's text with one piece replaced.
std::string FailureWith(const std::string& from, const std::string& to) {
  std::string text = DumpManifest(Example());
  REQUIRE(text.find(from) != text.npos);
  return Failure(text.replace(text.find(from), from.size(), to));
}

TEST_CASE("manifest: what is written is read") {
  CHECK(ParseManifest(DumpManifest(Example()), "m") == Example());
  DatasetManifest text = Example();
  text.preset.clear();
  text.labels.clear();
  CHECK(ParseManifest(DumpManifest(text), "m") == text);
}

TEST_CASE("manifest: version 1.0 had no task version, no warnings, and indices of each part") {
  DatasetManifest expected = Example();
  expected.task_version = 1;
  expected.parts[0].warnings.clear();
  expected.parts[0].first_index = expected.parts[0].first;
  Value old = ParseJson(DumpManifest(Example()));
  old.as_object()["schema_version"] = "1.0.0";
  old.as_object().erase("task_version");
  for (const char* key : {"warnings", "first_index"}) {
    old.as_object()["parts"].as_array()[0].as_object().erase(key);
  }
  CHECK(ParseManifest(DumpJson(old), "m") == expected);
}

TEST_CASE("manifest: faults are named with their place") {
  CHECK_THAT(Failure("{"), Catch::StartsWith("m.json: line 1"));
  CHECK_THAT(Failure("[]"), Catch::Contains("expected an object"));
  CHECK_THAT(FailureWith("\"dataset\"", "\"sweep\""), Catch::Contains("/kind"));
  CHECK_THAT(FailureWith("\"1.1.0\"", "\"2.0.0\""), Catch::Contains("/schema_version"));
  CHECK_THAT(FailureWith("\"seed\"", "\"sead\""), Catch::Contains("/seed: missing"));
  CHECK_THAT(FailureWith("\"18446744073709551615\"", "\"18446744073709551616\""),
             Catch::Contains("/seed: expected a whole number"));
  CHECK_THAT(FailureWith("\"first\": \"5\"", "\"first\": \"-5\""), Catch::Contains("/first"));
  CHECK_THAT(FailureWith("sha256:bb", "sha256:bB"), Catch::Contains("/parts/0/sha256"));
  CHECK_THAT(FailureWith("sha256:cc", "sha256:c"), Catch::Contains("/parts/0/files/0/sha256"));
  CHECK_THAT(FailureWith("\"count\": 30", "\"count\": 0"), Catch::Contains("/parts/0/count"));
  CHECK_THAT(FailureWith("\"count\": 30", "\"count\": 9223372036854775807"),
             Catch::Contains("out of range"));
}

TEST_CASE("manifest: files lie beside it, in order, each once") {
  CHECK_THAT(FailureWith("a-00000-of", "../a-00000-of"), Catch::Contains("no plain file name"));
  CHECK_THAT(FailureWith("a-00000-of", ".a-00000-of"), Catch::Contains("no plain file name"));
  CHECK_THAT(FailureWith("a-00001-of", "a-00000-of"), Catch::Contains("listed twice"));
  CHECK_THAT(FailureWith("\"first\": \"15\"", "\"first\": \"16\""), Catch::Contains("gap"));
  CHECK_THAT(FailureWith("\"count\": 20", "\"count\": 21"), Catch::Contains("too many"));
  CHECK_THAT(FailureWith("\"count\": 20", "\"count\": 19"), Catch::Contains("fewer"));
}

TEST_CASE("manifest: cut texts are refused") {
  const std::string text = DumpManifest(Example());
  for (std::size_t size = 0; size + 2 < text.size(); ++size) {
    CHECK(Failure(text.substr(0, size)) != "accepted");
  }
}

TEST_CASE("file names of data sets are plain") {
  CHECK(IsSafeFileName("train-00000-of-00004.jsonl"));
  for (const std::string& name : {std::string(), std::string("a/b"), std::string(".hidden"),
                                  std::string(".."), std::string("a\nb"), std::string(129, 'a')}) {
    CHECK_FALSE(IsSafeFileName(name));
  }
}

}  // namespace
}  // namespace mixerbench::io
