// SPDX-License-Identifier: Apache-2.0
#include "tasks/str_copy/str_copy.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/drawn_guesses.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::str_copy {
namespace {

StrCopySampler MakeSampler(const StrCopyParams& params) {
  return {.variant = params.variant,
          .alphabet_size = static_cast<std::uint32_t>(params.alphabet_size),
          .min_len = static_cast<std::uint32_t>(params.min_len),
          .max_len = static_cast<std::uint32_t>(params.max_len),
          .context_len = static_cast<std::uint32_t>(params.context_len),
          .n_gram = static_cast<std::uint32_t>(params.n_gram),
          .answer_len = static_cast<std::uint32_t>(std::max<std::int64_t>(params.length_answer, 0)),
          .is_packed = params.packed};
}

// An example as found in a sample.
struct Example {
  std::size_t string_begin = 0;
  std::size_t string_len = 0;
  std::size_t answer_begin = 0;   // the position of its first token; labels stand one before
  std::size_t answer_source = 0;  // first letter of the answer, in the string
};

class StrCopyTask final : public SampledTask<StrCopySampler> {
 public:
  explicit StrCopyTask(const StrCopyParams& params)
      : SampledTask(MakeSampler(params)), params_(params) {}

  TaskShape shape() const override {
    // An answer is never longer than its prompt less one.
    return {.vocab_size = params_.alphabet_size + 4,
            .seq_len = params_.context_len,
            .max_num_scored = params_.context_len / 2 + 1,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("str_copy")
        .Integer("A", params_.alphabet_size)
        .Integer("context", params_.context_len)
        .Integer("length_answer", params_.length_answer)
        .Integer("max_len", params_.max_len)
        .Integer("min_len", params_.min_len)
        .Integer("n", params_.n_gram)
        .Flag("packed", params_.packed)
        .Word("variant", NameOf(params_.variant))
        .Text();
  }

  // Copies, or looks up the first occurrence of the n-gram.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    const std::vector<Example> examples = ParseExamples(inputs);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const Example& example = ExampleAt(examples, positions[i]);
      const std::size_t offset = static_cast<std::size_t>(positions[i]) + 1 - example.answer_begin;
      answers[i] = offset < AnswerLen(example)
                       ? inputs[example.string_begin + example.answer_source + offset]
                       : static_cast<std::int32_t>(sampler().end_mark());
    }
  }

  std::vector<Baseline> baselines() const override {
    const auto end_mark = static_cast<std::int32_t>(sampler().end_mark());
    const double per_letter = 1.0 / static_cast<double>(params_.alphabet_size);
    const Baseline end_marks = DrawnGuess(
        *this, "the end mark", [=](auto, auto, std::int32_t label) { return label == end_mark; });
    return {
        {.name = "uniform over letters, end marks known",
         .accuracy = end_marks.accuracy + (1 - end_marks.accuracy) * per_letter,
         .given = {end_mark},
         .error = (1 - per_letter) * end_marks.error,
         .accuracy_at = [=](std::int64_t,
                            std::int32_t label) { return label == end_mark ? 1.0 : per_letter; }},
        {.name = "uniform over letters, end marks left out",
         .accuracy = per_letter,
         .without = {end_mark}}};
  }

  std::vector<SliceKey> slice_keys() const override {
    return {CountSlice("answer_index"), CountSlice("string_len"), {"end_mark", {"no", "yes"}}};
  }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    const std::vector<Example> examples = ParseExamples(inputs);
    std::size_t row = 0;
    for (std::size_t t = 0; t < labels.size(); ++t) {
      if (labels[t] == kIgnore) continue;
      const Example& example = ExampleAt(examples, static_cast<std::int32_t>(t));
      buckets[row] = CountBucket(static_cast<std::int64_t>(t + 1 - example.answer_begin));
      buckets[row + 1] = CountBucket(static_cast<std::int64_t>(example.string_len));
      buckets[row + 2] = labels[t] == static_cast<std::int32_t>(sampler().end_mark()) ? 1 : 0;
      row += 3;
    }
  }

 private:
  // The examples whose prompt is there as a whole.
  std::vector<Example> ParseExamples(std::span<const std::int32_t> inputs) const {
    const auto begin_mark = static_cast<std::int32_t>(sampler().begin_mark());
    const auto bar = static_cast<std::int32_t>(sampler().bar());
    const auto n_gram = static_cast<std::size_t>(params_.n_gram);
    const auto find = [&](std::size_t from, std::int32_t token) {
      return static_cast<std::size_t>(
          std::find(inputs.begin() + static_cast<std::ptrdiff_t>(from), inputs.end(), token) -
          inputs.begin());
    };
    std::vector<Example> examples;
    for (std::size_t t = find(0, begin_mark); t < inputs.size(); t = find(t + 1, begin_mark)) {
      Example example{.string_begin = t + 1};
      std::size_t n_gram_begin = t + 1;
      if (params_.variant == Variant::kPrefixNgram) example.string_begin += n_gram + 1;
      const std::size_t string_end = find(std::min(example.string_begin, inputs.size()), bar);
      example.string_len = string_end - std::min(example.string_begin, string_end);
      example.answer_begin = string_end + 1;
      if (params_.variant == Variant::kSuffixNgram) {
        n_gram_begin = string_end + 1;
        example.answer_begin += n_gram;
      }
      if (example.answer_begin > inputs.size()) break;  // cut
      if (sampler().is_lookup()) {
        const auto string = inputs.subspan(example.string_begin, example.string_len);
        const auto wanted = inputs.subspan(n_gram_begin, n_gram);
        const auto found = std::search(string.begin(), string.end(), wanted.begin(), wanted.end());
        example.answer_source = static_cast<std::size_t>(found - string.begin()) + n_gram;
      }
      examples.push_back(example);
    }
    return examples;
  }

  // The one that asks at `position`.
  static const Example& ExampleAt(const std::vector<Example>& examples, std::int32_t position) {
    const auto next = static_cast<std::size_t>(position) + 1;
    const auto after = std::find_if(examples.begin(), examples.end(), [&](const Example& example) {
      return example.answer_begin > next;
    });
    Require(after != examples.begin(), "an answer stands after its prompt");
    return *(after - 1);
  }

  // Letters of an answer.
  std::size_t AnswerLen(const Example& example) const {
    return sampler().is_lookup() && sampler().answer_len != 0
               ? sampler().answer_len
               : example.string_len - example.answer_source;
  }

  StrCopyParams params_;
};

// Lengths of Jelassi et al. are 10 to 1,000 and more.
constexpr std::int64_t kTestLens[] = {10, 20, 50, 100, 200, 300, 500, 1000};

Preset JelassiPreset(std::string name, Variant train, Variant test, std::string reproduces) {
  constexpr std::int64_t kOnline = 0;
  std::vector<Segment> test_segments;
  for (const std::int64_t len : kTestLens) {
    test_segments.push_back({StrCopyFields().Write({.variant = test,
                                                    .min_len = len,
                                                    .max_len = len,
                                                    .context_len = 2 * len + 4,
                                                    .packed = false}),
                             1000});
  }
  return MixturePreset(std::move(name), {{StrCopyFields().Write({.variant = train}), kOnline}},
                       std::move(test_segments), std::move(reproduces));
}

std::vector<Preset> Presets() {
  return {JelassiPreset("copy/jelassi", Variant::kCopy, Variant::kCopy,
                        "Jelassi et al. 2024, string copying"),
          JelassiPreset("copy/jelassi-duplicate", Variant::kCopy, Variant::kDuplicateNgram,
                        "Jelassi et al. 2024, copying with a doubled n-gram"),
          JelassiPreset("ngram/jelassi-prefix", Variant::kPrefixNgram, Variant::kPrefixNgram,
                        "Jelassi et al. 2024, n-gram lookup, n-gram first"),
          JelassiPreset("ngram/jelassi-suffix", Variant::kSuffixNgram, Variant::kSuffixNgram,
                        "Jelassi et al. 2024, n-gram lookup, n-gram last")};
}

// alphabet_size^n_gram, or `limit` when that is less.
std::int64_t NumNgrams(const StrCopyParams& params, std::int64_t limit) {
  std::int64_t count = 1;
  for (std::int64_t i = 0; i < params.n_gram && count < limit; ++i) count *= params.alphabet_size;
  return std::min(count, limit);
}

}  // namespace

const Fields<StrCopyParams>& StrCopyFields() {
  static const auto fields =
      Fields<StrCopyParams>()
          .Add("variant", &StrCopyParams::variant,
               "copy the string, continue it after an n-gram given before or after it, or copy one "
               "in which an n-gram occurs twice")
          .Add("alphabet_size", &StrCopyParams::alphabet_size,
               "letters; the vocabulary has four marks more")
          .Add("min_len", &StrCopyParams::min_len, "letters of a string at least")
          .Add("max_len", &StrCopyParams::max_len, "letters of a string at most")
          .Add("context_len", &StrCopyParams::context_len, "tokens of one sample")
          .Add("n_gram", &StrCopyParams::n_gram, "letters that are looked up or doubled")
          .Add("length_answer", &StrCopyParams::length_answer,
               "letters asked for after the n-gram; -1: all to the end of the string")
          .Add("packed", &StrCopyParams::packed,
               "examples up to the end of the context; false: one, then pads");
  return fields;
}

void Validate(const StrCopyParams& params, const std::string& where) {
  constexpr std::int64_t kMaxVocab = 1 << 24;
  constexpr std::int64_t kMaxLetters = 1 << 28;  // drawn for one sample
  const NamedValue alphabet_size("alphabet_size", params.alphabet_size);
  const NamedValue min_len("min_len", params.min_len);
  const NamedValue max_len("max_len", params.max_len);
  const NamedValue context_len("context_len", params.context_len);
  const NamedValue n_gram("n_gram", params.n_gram);
  const NamedValue length_answer("length_answer", params.length_answer);
  const Rules rules("str_copy", where);
  rules.Must(params.alphabet_size >= 1 && params.alphabet_size <= kMaxVocab - 4,
             "alphabet_size must be in [1, 16777212]", {alphabet_size});
  rules.SequenceLength({context_len});
  rules.Must(params.min_len >= 1 && params.min_len <= params.max_len,
             "min_len must be in [1, max_len]", {min_len, max_len});
  rules.Must(params.n_gram >= 1, "n_gram must be >= 1", {n_gram});
  rules.Must(params.length_answer == -1 || params.length_answer >= 1,
             "length_answer must be -1 or >= 1", {length_answer});
  const bool is_lookup =
      params.variant == Variant::kPrefixNgram || params.variant == Variant::kSuffixNgram;
  if (is_lookup) {
    // Subtracted, since the sum could overflow.
    rules.Must(params.min_len - params.n_gram > params.length_answer,
               "min_len must be > n_gram + length_answer", {min_len, n_gram, length_answer});
    rules.Must(params.min_len > params.n_gram, "min_len must be > n_gram", {min_len, n_gram});
  }
  if (params.variant == Variant::kDuplicateNgram) {
    rules.Must(params.n_gram <= params.min_len / 2, "min_len must be >= 2*n_gram",
               {min_len, n_gram});
  }
  rules.Must(params.max_len <= (params.context_len - 1) / 2, "context_len must be > 2*max_len",
             {context_len, max_len});
  const std::int64_t max_examples = MakeSampler(params).max_examples();
  rules.Must(max_examples <= kRedrawStep && max_examples * params.max_len <= kMaxLetters,
             "context_len must hold at most 4096 examples, of 2^28 letters together",
             {context_len, min_len, max_len});
  if (is_lookup) {
    // Else n-grams that occur once are rare: with four times as many, eleven draws fail together
    // with probability (1/4)^11.
    rules.Must(NumNgrams(params, 4 * params.max_len) == 4 * params.max_len,
               "need alphabet_size^n_gram >= 4*max_len", {alphabet_size, n_gram, max_len});
    rules.Must(params.max_len + params.n_gram + 3 <= params.context_len,
               "need max_len + n_gram + 3 <= context_len", {max_len, n_gram, context_len});
  }
  const StrCopyParams standard;
  rules.ActsOnly(params.variant != Variant::kCopy,
                 "variant prefix_ngram, suffix_ngram and duplicate_ngram", n_gram,
                 {"n_gram", standard.n_gram});
  rules.ActsOnly(is_lookup, "variant prefix_ngram and suffix_ngram", length_answer,
                 {"length_answer", standard.length_answer});
}

std::unique_ptr<Task> MakeStrCopy(const StrCopyParams& params) {
  return std::make_unique<StrCopyTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "str_copy",
      WithOptions<StrCopyParams>(
          {.summary = "copy a string of letters, or continue it after an n-gram",
           .source = "Jelassi et al., Repeat After Me, ICML 2024 (arXiv 2402.01032)",
           .aliases = {"string_copying", "ngram_lookup"},
           .presentation_params = {},
           .presets = Presets(),
           .deviations =
               {"Q22: the n-gram that is looked up occurs once, and every one of them can be "
                "asked for"}},
          StrCopyFields(), Validate, MakeStrCopy));
}

}  // namespace mixerbench::tasks::str_copy
