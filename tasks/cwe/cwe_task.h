// Samples of common words extraction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/cwe/cwe.h"
#include "tasks/text/composed_task.h"

namespace mixerbench::tasks::cwe {

class CweTask final : public ComposedTask {
 public:
  CweTask(const CweParams& params, std::shared_ptr<TextLibrary> library,
          std::shared_ptr<const Tokenizer> tokenizer);

  // Tokens that a sample with words of average length and a single uncommon one needs, response
  // included. Samples that need more are drawn again.
  std::int64_t MinInputSeqLen() const;

  std::string canon() const override;
  std::string Answer(std::string_view prompt) const override;
  AnswerType answer_type() const override { return AnswerType::kWord; }
  std::vector<std::string> metrics() const override { return {"match_all"}; }

 protected:
  Composition Compose(const SampleStream& stream) const override;
  std::string DrawAnswer(const SampleStream& stream) const override;
  std::int64_t max_answer_bytes() const override;

 private:
  // Attempt `attempt` at the words of a sample, `count` of them; the first num_cw are common.
  std::vector<std::uint32_t> DrawWords(const SampleStream& stream, std::uint32_t attempt,
                                       std::int64_t count) const;
  // " 1. a 2. b": the common ones of `words`.
  std::string ListCommon(const std::vector<std::uint32_t>& words) const;
  // As many words of an attempt as make a list of `budget` tokens or less.
  std::vector<std::uint32_t> FitWords(const SampleStream& stream, std::uint32_t attempt,
                                      std::int64_t budget) const;
  std::string Example(const SampleStream& stream) const;

  CweParams params_;
  std::shared_ptr<TextLibrary> library_;
  const std::vector<std::string>& words_;  // those that are drawn from
  std::shared_ptr<const TokenizedUnits> word_units_;
};

}  // namespace mixerbench::tasks::cwe
