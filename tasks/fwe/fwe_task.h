// Samples of frequent words extraction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/fwe/fwe.h"
#include "tasks/text/composed_task.h"

namespace mixerbench::tasks::fwe {

class FweTask final : public ComposedTask {
 public:
  FweTask(const FweParams& params, std::shared_ptr<const Tokenizer> tokenizer);

  // Tokens that any sample whose answers stand out fits into, response included.
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
  std::int64_t vocabulary() const;
  // The smallest size whose ranks 2 to 5 all differ in how often they are listed.
  std::int64_t MinSize() const;
  std::int64_t Count(std::int64_t size, std::int64_t rank) const;

  FweParams params_;
  double zeta_;
};

}  // namespace mixerbench::tasks::fwe
