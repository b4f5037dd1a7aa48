// Samples of NIAH: where the needles go and how much haystack fits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/niah/needles.h"
#include "tasks/niah/niah.h"
#include "tasks/niah/niah_prompt.h"
#include "tasks/slices.h"
#include "tasks/text/composed_task.h"

namespace mixerbench::tasks::niah {

class NiahTask final : public ComposedTask {
 public:
  // haystack: of the types that have sentences, else null.
  NiahTask(const NiahParams& params, std::shared_ptr<TextLibrary> library,
           std::shared_ptr<const Haystack> haystack, std::shared_ptr<const Tokenizer> tokenizer);

  // Tokens that any sample with the least haystack fits into, response included.
  std::int64_t MinInputSeqLen() const;

  // Throws ConfigError at `where` when the haystack cannot fill a context.
  void CheckHaystack(const std::string& where) const;

  std::string canon() const override;
  std::vector<std::string> warnings() const override;
  std::string Answer(std::string_view prompt) const override;
  AnswerType answer_type() const override;
  std::vector<std::string> metrics() const override { return {"match_all", "prefix5"}; }
  std::vector<SliceKey> slice_keys() const override { return {DecileSlice("depth")}; }

 protected:
  Composition Compose(const SampleStream& stream) const override;
  std::string DrawAnswer(const SampleStream& stream) const override;
  std::int64_t max_answer_bytes() const override;
  void SliceBuckets(std::string_view prompt, std::span<std::int32_t> buckets) const override;

 private:
  // What is drawn before the context is laid out.
  struct Sample {
    Needles drawn;
    std::vector<std::uint32_t> queried;     // keys, in the order of the question
    std::vector<std::uint32_t> appearance;  // needles, in the order of the text
    Question question;
    std::string answer;
  };

  // A unit of haystack in the order of the context.
  struct Unit {
    std::uint32_t index = 0;  // of the sentence
    std::string own_text;     // instead of it: a sentence with digit noise, a distractor
  };

  // Haystack and where the needles stand in it.
  struct Context {
    std::vector<Unit> units;
    std::vector<std::int64_t> needle_units;  // units before appearance[j]; ascending
    std::vector<std::string> distractors;
  };

  Sample DrawSample(const SampleStream& stream) const;
  NeedleCounts counts() const;
  std::int64_t num_needles() const { return params_.num_needle_k * params_.num_needle_v; }

  // Tokens of `text` as the first unit of the context that the length is fitted on.
  std::int64_t CountFirst(std::string_view text) const;
  // Tokens left for the context when the instruction that fit_on names stands before it.
  std::int64_t ContextBudget(const Sample& sample) const;
  Context FillSentences(const SampleStream& stream, const Sample& sample) const;
  Context FillLines(const SampleStream& stream, const Sample& sample) const;
  // Writes the prompt. Returns the tokens before each needle in the order of the text, and those of
  // the prompt.
  std::vector<std::int64_t> LayOut(const Sample& sample, const Context& context,
                                   Draft& draft) const;
  // Unit `index` of the order with digit noise when it is drawn for it.
  Unit NoisyUnit(const SampleStream& stream, const Sample& sample, std::uint32_t index) const;
  // Units before the only needle of a context of `num_units`, for depth_mode grid and fixed.
  std::int64_t ChosenUnit(const SampleStream& stream, std::int64_t num_units) const;

  // Tokens of haystack that any context has room for.
  std::int64_t HaystackRoom() const { return params_.input_seq_len - MinInputSeqLen(); }

  NiahParams params_;
  std::shared_ptr<TextLibrary> library_;
  Words words_;
  std::shared_ptr<const Haystack> haystack_;
  TokenizedUnits noise_;  // the noise line
};

}  // namespace mixerbench::tasks::niah
