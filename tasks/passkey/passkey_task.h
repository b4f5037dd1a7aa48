// Samples of passkey retrieval.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/passkey/passkey.h"
#include "tasks/slices.h"
#include "tasks/text/composed_task.h"

namespace mixerbench::tasks::passkey {

class PasskeyTask final : public ComposedTask {
 public:
  PasskeyTask(const PasskeyParams& params, std::shared_ptr<const Tokenizer> tokenizer);

  // Tokens that every sample with the least filler fits into, response included.
  std::int64_t MinInputSeqLen() const;

  std::string canon() const override;
  std::string Answer(std::string_view prompt) const override;
  AnswerType answer_type() const override { return AnswerType::kNumber; }
  std::vector<std::string> metrics() const override { return {"int_first"}; }
  std::vector<SliceKey> slice_keys() const override { return {DecileSlice("depth")}; }

 protected:
  Composition Compose(const SampleStream& stream) const override;
  std::string DrawAnswer(const SampleStream& stream) const override;
  std::int64_t max_answer_bytes() const override;
  void SliceBuckets(std::string_view prompt, std::span<std::int32_t> buckets) const override;

 private:
  std::string DrawKey(const SampleStream& stream) const;
  std::uint32_t num_keys() const;
  // Filler units, or characters, before the key when there are `size` of them in all.
  std::int64_t Position(const SampleStream& stream, std::int64_t size) const;
  // Tokens of filler of `num_sentences` sentences, the first without a space before it.
  std::int64_t CountSentences(std::int64_t num_sentences) const;

  Composition ComposeSentences(const SampleStream& stream) const;
  Composition ComposeCharacters(const SampleStream& stream) const;
  Composition ComposeBlocks(const SampleStream& stream) const;

  PasskeyParams params_;
  TokenizedUnits sentences_;  // the five of the filler
  TokenizedUnits line_;       // all of it as one
};

}  // namespace mixerbench::tasks::passkey
