// SPDX-License-Identifier: Apache-2.0
#include "harness/dataset/text_files.h"

#include <memory>
#include <stdexcept>

#include "base/error.h"
#include "base/sha256.h"
#include "io/json.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

// "What is i?" with the answer i.
class EchoTask final : public tasks::TextTask {
 public:
  tasks::TaskShape shape() const override { return {300, 32, 4, 0}; }
  std::string canon() const override { return "echo"; }
  void Generate(const tasks::SampleStream&, tasks::LabelMode, std::span<std::int32_t>,
                std::span<std::int32_t>, std::span<std::uint32_t>) const override {}
  void Solve(std::span<const std::int32_t>, std::span<const std::int32_t>,
             std::span<std::int32_t>) const override {}
  std::vector<tasks::Baseline> baselines() const override { return {{"none", 0}}; }
  void AssignSlices(std::span<const std::int32_t>, std::span<const std::int32_t>,
                    std::span<std::int32_t>) const override {}
  tasks::PromptRecord MakePrompt(const tasks::SampleStream& stream) const override {
    const std::string number = std::to_string(stream.index);
    return {.prompt = "What\nis \"" + number + "\"?",
            .answer_prefix = " It is",
            .answer = " " + number,
            .references = {number},
            .distractors = {"77"},
            .prompt_tokens = 9,
            .max_new_tokens = 5,
            .metadata = Object{{"depth", 40}}};
  }
  std::vector<std::int32_t> MakePromptTokens(const tasks::SampleStream&) const override {
    return {};
  }
  std::string Answer(std::string_view) const override { return ""; }
  tasks::AnswerType answer_type() const override { return tasks::AnswerType::kNumber; }
  std::vector<std::string> metrics() const override { return {"int_first", "match_all"}; }
  const tasks::Tokenizer& tokenizer() const override { throw std::logic_error("not needed"); }
};

Dataset Echo(std::int64_t count) {
  Dataset dataset{.task_name = "echo"};
  dataset.parts.push_back({.params = Object{},
                           .task = std::make_unique<EchoTask>(),
                           .first = 5,
                           .count = count,
                           .first_index = 5});
  return dataset;
}

// The bytes of samples first..first+count-1, and the hash of the stream.
std::pair<std::string, std::string> Make(const Dataset& dataset, std::uint64_t first,
                                         std::int64_t count, int num_threads) {
  std::string file;
  Sha256 stream;
  TextFileMaker(dataset, num_threads)(
      dataset.parts[0], first, count,
      [&](std::uint64_t offset, std::string_view bytes) {
        REQUIRE(offset == file.size());
        file += bytes;
      },
      stream);
  return {file, stream.Hex()};
}

template <typename Action>
std::string Failure(Action action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST_CASE("text files: lines of RULER, whatever the number of threads") {
  const Dataset dataset = Echo(50);
  const auto [file, hash] = Make(dataset, 5, 50, 1);
  CHECK(hash == Sha256Hex(file));
  for (const int num_threads : {2, 3, 64}) CHECK(Make(dataset, 5, 50, num_threads).first == file);
  CHECK(Make(dataset, 5, 20, 2).first + Make(dataset, 25, 30, 2).first == file);
  const Value row = io::ParseJson(file.substr(0, file.find('\n')));
  CHECK(row.Find("index")->as_int() == 5);
  CHECK(row.Find("input")->as_string() == "What\nis \"5\"?");
  CHECK(row.Find("answer_prefix")->as_string() == " It is");
  CHECK(row.Find("length")->as_int() == 14);
  CHECK(row.Find("max_length")->as_int() == 32);
  CHECK(row.Find("meta")->Find("depth")->as_int() == 40);
}

TEST_CASE("text files: references are what was written") {
  const auto references = ReadReferences(Make(Echo(3), 5, 3, 1).first, "f");
  REQUIRE(references.size() == 3);
  CHECK(references[1].index == 6);
  CHECK(references[1].outputs == tasks::References{"6"});
  CHECK(references[1].distractors == std::vector<std::string>{"77"});
  CHECK(references[1].answer_type == tasks::AnswerType::kNumber);
  CHECK(references[1].metrics == std::vector<std::string>{"int_first", "match_all"});
  CHECK(references[1].meta == Object{{"depth", 40}, {"max_length", 32}});
}

TEST_CASE("references of other programs say less") {
  const auto type = [](const std::string& output) {
    return ReadReferences(R"({"index":0,"outputs":[")" + output + "\"]}", "f")[0].answer_type;
  };
  CHECK(type("1234567") == tasks::AnswerType::kNumber);
  CHECK(type("dec8e071-4edc-4f5f-b272-3b1d83022f05") == tasks::AnswerType::kUuid);
  CHECK(type("ABCDE") == tasks::AnswerType::kName);
  CHECK(type("profuse-coat") == tasks::AnswerType::kWord);
  const auto refuse = [](const std::string& text) {
    return Failure([&] { ReadReferences(text, "f"); });
  };
  CHECK(refuse("\n{\"index\":0}") == "f: line 2: has no outputs");
  CHECK(refuse("{\"outputs\":[\"1\"]}") == "f: line 1: has no index");
  CHECK(refuse("[]") == "f: line 1: is not an object");
  CHECK(refuse("{\"index\":0,\"outputs\":[1]}") ==
        "f: line 1: outputs holds something that is no string");
  const std::string row = "{\"index\":0,\"outputs\":[\"1\"]}\n";
  CHECK(refuse(row + row) == "f: line 2: has the index of another line");
}

TEST_CASE("predictions are read as RULER and lm-evaluation-harness write them") {
  const auto read = [](const std::string& text) { return ReadPredictions(text, "f").at(0); };
  CHECK(read(R"({"index":3,"pred":" 12","others":{}})").response == " 12");
  CHECK(read(R"({"doc_id":0,"doc":{"index":3},"filtered_resps":["12"]})").index == 3);
  CHECK(read(R"({"doc_id":0,"doc":{"index":3},"filtered_resps":["12"]})").response == "12");
  const Prediction likely =
      read(R"({"index":1,"token_log_probs":[-0.5,-2],"token_is_greedy":[true,false]})");
  REQUIRE(likely.likelihood.size() == 2);
  CHECK(likely.likelihood[1].log_prob == -2);
  CHECK_FALSE(likely.likelihood[1].is_greedy);
  CHECK(likely.response.empty());
  const auto refuse = [](const std::string& text) {
    return Failure([&] { ReadPredictions(text, "f"); });
  };
  CHECK_THAT(refuse(R"({"index":1})"), Catch::Contains("neither pred nor filtered_resps"));
  CHECK_THAT(refuse(R"({"index":1,"pred":5})"), Catch::Contains("pred is no string"));
  CHECK_THAT(refuse(R"({"index":1,"token_log_probs":[0.5],"token_is_greedy":[true]})"),
             Catch::Contains("logarithms"));
  CHECK_THAT(refuse(R"({"index":1,"token_log_probs":[-1],"token_is_greedy":[]})"),
             Catch::Contains("one length"));
  CHECK_THAT(refuse("{"), Catch::StartsWith("f: line 1: line 1"));
}

}  // namespace
}  // namespace mixerbench::harness
