// Samples of variable tracking.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/text/composed_task.h"
#include "tasks/vt/vt.h"
#include "tasks/vt/vt_chains.h"

namespace mixerbench::tasks::vt {

class VtTask final : public ComposedTask {
 public:
  // haystack: null for noise.
  VtTask(const VtParams& params, std::shared_ptr<TextLibrary> library,
         std::shared_ptr<const Haystack> haystack, std::shared_ptr<const Tokenizer> tokenizer);

  // Tokens that any sample with the least haystack fits into, response included.
  std::int64_t MinInputSeqLen() const;

  // Throws ConfigError at `where` when the haystack cannot fill a context.
  void CheckHaystack(const std::string& where) const;

  std::string canon() const override;
  std::vector<std::string> warnings() const override;
  std::string Answer(std::string_view prompt) const override;
  AnswerType answer_type() const override { return AnswerType::kName; }
  std::vector<std::string> metrics() const override { return {"match_all"}; }

 protected:
  Composition Compose(const SampleStream& stream) const override;
  std::string DrawAnswer(const SampleStream& stream) const override;
  std::int64_t max_answer_bytes() const override;

 private:
  // Adds lines of noise with the chains among them; so many that the context has `budget` tokens or
  // less. Returns the number of lines of noise.
  std::int64_t AddLines(const SampleStream& stream, const std::vector<Chain>& chains,
                        std::uint32_t position_stream, std::int64_t budget, Draft& draft) const;
  // The same with sentences.
  std::int64_t AddSentences(const SampleStream& stream, const std::vector<Chain>& chains,
                            std::int64_t budget, Draft& draft) const;
  // A solved question in 500 tokens of noise, with names of three letters.
  std::string Example(const SampleStream& stream) const;

  // Tokens of haystack that any context has room for.
  std::int64_t HaystackRoom() const { return params_.input_seq_len - MinInputSeqLen(); }

  VtParams params_;
  std::shared_ptr<TextLibrary> library_;
  std::shared_ptr<const Haystack> haystack_;
  TokenizedUnits noise_;  // the noise line
};

}  // namespace mixerbench::tasks::vt
