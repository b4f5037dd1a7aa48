// SPDX-License-Identifier: Apache-2.0
#include "tasks/fwe/fwe.h"

#include <vector>

#include "tasks/fwe/fwe_task.h"
#include "tasks/rules.h"
#include "tasks/text/text_presets.h"

namespace mixerbench::tasks::fwe {
namespace {

FweParams ParseParams(const Value& value, const std::string& where) {
  const FweParams params = FweFields().Parse(value, where);
  Validate(params, where);
  return params;
}

std::vector<Preset> Presets() {
  std::vector<Value> points;
  for (const std::int64_t length : RulerLengths()) {
    points.push_back(FweFields().Write(FweFields().Parse(Object{{"input_seq_len", length}}, "")));
  }
  return {TextPreset("ruler/11/fwe", points, 500, "RULER without QA")};
}

}  // namespace

const Fields<FweParams>& FweFields() {
  static const auto fields = [] {
    Fields<FweParams> f;
    AddTextFields(f);
    f.Add("alpha", &FweParams::alpha,
          "the word of rank r is listed in proportion to r^-alpha; larger is easier");
    return f;
  }();
  return fields;
}

void Validate(const FweParams& p, const std::string& where) {
  const Rules rules("fwe", where);
  CheckTextOptions(p, rules);
  rules.Must(p.alpha > 1 && p.alpha <= 8, "alpha must be > 1 and <= 8", {{"alpha", p.alpha}});
}

std::unique_ptr<Task> MakeFwe(const FweParams& params, TextLibrary& library,
                              const std::string& where) {
  auto task =
      std::make_unique<FweTask>(params, library.tokenizer(params, where + "/tokenizer_file"));
  CheckFits("fwe", where, params.input_seq_len, task->MinInputSeqLen());
  return task;
}

void Register(TaskRegistry& registry) {
  TaskEntry entry;
  entry.summary = "frequent words extraction: the commonest words of a coded text";
  entry.source = "Hsieh et al. 2024 (RULER, arXiv 2404.06654)";
  entry.aliases = {"freq_words_extraction"};
  entry.params = FweFields().Describe();
  entry.presentation_params = TextPresentationParams();
  entry.presets = Presets();
  entry.deviations = {
      "the longest list that fits, to the word (reference: steps of ten)",
      "lists too short for the three words to stand out are refused (reference: ties)"};
  auto library = std::make_shared<TextLibrary>();
  entry.create = [library](const Value& value, const std::string& where) {
    return MakeFwe(ParseParams(value, where), *library, where);
  };
  entry.resolve = [](const Value& value, const std::string& where) {
    return FweFields().Write(ParseParams(value, where));
  };
  registry.Add("fwe", std::move(entry));
}

}  // namespace mixerbench::tasks::fwe
