// SPDX-License-Identifier: Apache-2.0
#include "tasks/niah/niah.h"

#include <utility>
#include <vector>

#include "tasks/niah/niah_presets.h"
#include "tasks/niah/niah_task.h"
#include "tasks/rules.h"

namespace mixerbench::tasks::niah {
namespace {

NiahParams ParseParams(const Value& value, const std::string& where) {
  const NiahParams params = NiahFields().Parse(value, where);
  Validate(params, where);
  return params;
}

// That no option is given where it changes no sample.
void CheckUse(const NiahParams& p, const Rules& rules) {
  const NiahParams standard;
  rules.ActsOnly(p.depth_mode == DepthMode::kGrid, "depth_mode grid", {"depth_grid", p.depth_grid},
                 {"depth_grid", standard.depth_grid});
  rules.ActsOnly(p.depth_mode == DepthMode::kFixed, "depth_mode fixed", {"depth", p.depth},
                 {"depth", standard.depth});
  const bool is_phrase = p.type_needle_v == NeedleType::kWords;
  rules.ActsOnly(is_phrase, "type_needle_v words", {"phrase_words", p.phrase_words},
                 {"phrase_words", standard.phrase_words});
  rules.ActsOnly(is_phrase && p.phrase_words > 1, "type_needle_v words and phrase_words > 1",
                 {"phrase_sep", NameOf(p.phrase_sep)}, {"phrase_sep", NameOf(standard.phrase_sep)});
  rules.ActsOnly(IsRunningText(p.type_haystack), "running text", {"digit_noise", p.digit_noise},
                 {"digit_noise", standard.digit_noise});
}

}  // namespace

const Fields<NiahParams>& NiahFields() {
  static const auto fields = [] {
    Fields<NiahParams> f;
    AddTextFields(f);
    f.Add("type_haystack", &NiahParams::type_haystack,
          "kjv: the King James Bible (kjv_train, kjv_test: disjoint chapters of it); noise: one "
          "line repeated; needle: needles nobody asks for; file: haystack_file");
    AddHaystackFields(f);
    f.Add("type_needle_k", &NiahParams::type_needle_k, "what keys are")
        .Add("type_needle_v", &NiahParams::type_needle_v,
             "what values are; words makes it NIAH-Word")
        .Add("num_needle_k", &NiahParams::num_needle_k, "keys hidden in the context")
        .Add("num_needle_v", &NiahParams::num_needle_v, "values of each key")
        .Add("num_needle_q", &NiahParams::num_needle_q, "keys asked for")
        .Add("inst", &NiahParams::inst,
             "text before the context: original; strong, which names the keys; none")
        .Add("fit_on", &NiahParams::fit_on,
             "the instruction that the context leaves room for: strong, so that all variants have "
             "the same context, or the sample's own (self)")
        .Add("depth_mode", &NiahParams::depth_mode,
             "random40: distinct points of RULER's 40; grid: sample i at point i mod depth_grid; "
             "fixed: at depth")
        .Add("depth_grid", &NiahParams::depth_grid, "points over 0..100 %, of depth_mode grid")
        .Add("depth", &NiahParams::depth, "percent, of depth_mode fixed")
        .Add("phrase_words", &NiahParams::phrase_words,
             "words of a value of type words: adjectives and nouns in turn")
        .Add("phrase_sep", &NiahParams::phrase_sep, "between the words of a value")
        .Add("digit_noise", &NiahParams::digit_noise,
             "share of haystack sentences that get a random 7-digit number");
    return f;
  }();
  return fields;
}

void Validate(const NiahParams& p, const std::string& where) {
  // Keys and needles whose draws are set apart (needles.cc), and points of the depth grid.
  constexpr std::int64_t kMaxKeys = 40, kMaxNeedles = 40, kMaxPhraseWords = 6;
  const Rules rules("niah", where);
  CheckTextOptions(p, rules);
  rules.Must(p.num_needle_k >= 1 && p.num_needle_k <= kMaxKeys, "num_needle_k must be in [1, 40]",
             {{"num_needle_k", p.num_needle_k}});
  rules.Must(p.num_needle_v >= 1 && p.num_needle_v <= kMaxNeedles,
             "num_needle_v must be in [1, 40]", {{"num_needle_v", p.num_needle_v}});
  rules.Must(p.num_needle_k * p.num_needle_v <= kMaxNeedles,
             "num_needle_k * num_needle_v must be <= 40",
             {{"num_needle_k", p.num_needle_k}, {"num_needle_v", p.num_needle_v}});
  rules.Must(p.num_needle_q >= 1 && p.num_needle_q <= p.num_needle_k,
             "num_needle_q must be in [1, num_needle_k]",
             {{"num_needle_q", p.num_needle_q}, {"num_needle_k", p.num_needle_k}});
  CheckHaystackOptions(p.type_haystack, p, rules);
  rules.Must(p.depth_mode == DepthMode::kRandom40 || p.num_needle_k * p.num_needle_v == 1,
             "depth_mode grid and fixed need a single needle",
             {{"num_needle_k", p.num_needle_k}, {"num_needle_v", p.num_needle_v}});
  rules.Must(p.depth_grid >= 2 && p.depth_grid <= 1000, "depth_grid must be in [2, 1000]",
             {{"depth_grid", p.depth_grid}});
  rules.Must(p.depth >= 0 && p.depth <= 100, "depth must be in [0, 100]", {{"depth", p.depth}});
  rules.Must(p.phrase_words >= 1 && p.phrase_words <= kMaxPhraseWords,
             "phrase_words must be in [1, 6]", {{"phrase_words", p.phrase_words}});
  rules.Must(p.digit_noise >= 0 && p.digit_noise <= 1, "digit_noise must be in [0, 1]",
             {{"digit_noise", p.digit_noise}});
  CheckUse(p, rules);
}

std::unique_ptr<Task> MakeNiah(const NiahParams& params, std::shared_ptr<TextLibrary> library,
                               const std::string& where) {
  auto haystack =
      FindHaystack(params.type_haystack, params.haystack_file, *library, where + "/haystack_file");
  auto tokenizer = library->tokenizer(params, where + "/tokenizer_file");
  auto task = std::make_unique<NiahTask>(params, std::move(library), std::move(haystack),
                                         std::move(tokenizer));
  CheckFits("niah", where, params.input_seq_len, task->MinInputSeqLen());
  if (params.type_haystack == HaystackType::kFile) task->CheckHaystack(where + "/haystack_file");
  return task;
}

void Register(TaskRegistry& registry) {
  TaskEntry entry;
  entry.summary = "needle in a haystack (RULER's eight variants, NIAH-Word) with exact lengths";
  entry.source =
      "Hsieh et al. 2024 (RULER, arXiv 2404.06654); SILA; haystack: the King James Bible";
  entry.aliases = {"needle_in_a_haystack"};
  entry.params = NiahFields().Describe();
  entry.presentation_params = TextPresentationParams();
  for (const char* name : {"inst", "fit_on", "haystack_mode", "haystack_seed", "depth_mode",
                           "depth_grid", "depth", "phrase_words", "phrase_sep", "digit_noise"}) {
    entry.presentation_params.emplace_back(name);
  }
  entry.presets = Presets();
  entry.deviations = {
      "Q30: the order of needles is drawn for each sample (reference: one fixed shuffle)",
      ("Q31: sentences of a shipped text, by default in a new order for each sample (reference: "
       "the "
       "beginning of essays downloaded at run time)"),
      "Q32: a haystack that is too short repeats (one reference leaves the context short)",
      ("Q33: the longest context that fits, to the unit; what cannot fit is rejected (references: "
       "steps of 500 words, endless retries)"),
      "Q38: a needle's position has its own field; distractors never have a needle's key"};
  auto library = std::make_shared<TextLibrary>();
  entry.create = [library](const Value& value, const std::string& where) {
    return MakeNiah(ParseParams(value, where), library, where);
  };
  entry.resolve = [](const Value& value, const std::string& where) {
    return NiahFields().Write(ParseParams(value, where));
  };
  registry.Add("niah", std::move(entry));
}

}  // namespace mixerbench::tasks::niah
