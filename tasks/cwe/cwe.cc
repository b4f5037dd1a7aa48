// SPDX-License-Identifier: Apache-2.0
#include "tasks/cwe/cwe.h"

#include <vector>

#include "tasks/cwe/cwe_task.h"
#include "tasks/rules.h"
#include "tasks/text/text_presets.h"

namespace mixerbench::tasks::cwe {
namespace {

constexpr std::int64_t kLongLength = 4096;

CweParams ParseParams(const Value& value, const std::string& where) {
  const CweParams params = WithFrequencies(CweFields().Parse(value, where));
  Validate(params, where);
  return params;
}

std::vector<Preset> Presets() {
  std::vector<Value> points;
  for (const std::int64_t length : RulerLengths()) {
    points.push_back(CweFields().Write(
        WithFrequencies(CweFields().Parse(Object{{"input_seq_len", length}}, ""))));
  }
  return {TextPreset("ruler/11/cwe", points, 500, "RULER without QA")};
}

}  // namespace

const Fields<CweParams>& CweFields() {
  static const auto fields = [] {
    Fields<CweParams> f;
    AddTextFields(f);
    f.Add("num_cw", &CweParams::num_cw, "common words, which are asked for")
        .Add("freq_cw", &CweParams::freq_cw,
             "times each common word is listed; 0: 30, below 4096 tokens 6")
        .Add("freq_ucw", &CweParams::freq_ucw,
             "times every other word is listed; 0: 3, below 4096 tokens 1")
        .Add("example", &CweParams::example, "begin with a short solved question");
    return f;
  }();
  return fields;
}

CweParams WithFrequencies(CweParams params) {
  const bool is_long = params.input_seq_len >= kLongLength;
  if (params.freq_cw == 0) params.freq_cw = is_long ? 30 : 6;
  if (params.freq_ucw == 0) params.freq_ucw = is_long ? 3 : 1;
  return params;
}

void Validate(const CweParams& p, const std::string& where) {
  const Rules rules("cwe", where);
  CheckTextOptions(p, rules);
  rules.Must(p.num_cw >= 1 && p.num_cw <= 100, "num_cw must be in [1, 100]",
             {{"num_cw", p.num_cw}});
  rules.Must(p.freq_ucw >= 1, "freq_ucw must be >= 1", {{"freq_ucw", p.freq_ucw}});
  rules.Must(p.freq_cw > p.freq_ucw && p.freq_cw <= 10000,
             "freq_cw must be > freq_ucw and <= 10000",
             {{"freq_cw", p.freq_cw}, {"freq_ucw", p.freq_ucw}});
}

std::unique_ptr<Task> MakeCwe(const CweParams& params, std::shared_ptr<TextLibrary> library,
                              const std::string& where) {
  auto tokenizer = library->tokenizer(params, where + "/tokenizer_file");
  auto task = std::make_unique<CweTask>(params, std::move(library), std::move(tokenizer));
  CheckFits("cwe", where, params.input_seq_len, task->MinInputSeqLen());
  return task;
}

void Register(TaskRegistry& registry) {
  TaskEntry entry;
  entry.summary = "common words extraction: the words that a numbered list holds most often";
  entry.source = "Hsieh et al. 2024 (RULER, arXiv 2404.06654)";
  entry.aliases = {"common_words_extraction"};
  entry.params = CweFields().Describe();
  entry.presentation_params = TextPresentationParams();
  entry.presentation_params.emplace_back("example");
  entry.presets = Presets();
  entry.deviations = {
      "words are of the shipped list (reference: the wonderwords package)",
      "answers name the words in the order they first appear, in the example too (reference: the "
      "order of the draw, which the list does not show)",
      "a sample whose common words alone do not fit is drawn again (reference: endless retries)",
      "a context ends early when all 24,471 words are listed"};
  auto library = std::make_shared<TextLibrary>();
  entry.create = [library](const Value& value, const std::string& where) {
    return MakeCwe(ParseParams(value, where), library, where);
  };
  entry.resolve = [](const Value& value, const std::string& where) {
    return CweFields().Write(ParseParams(value, where));
  };
  registry.Add("cwe", std::move(entry));
}

}  // namespace mixerbench::tasks::cwe
