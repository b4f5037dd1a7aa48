// Samples of phonebook look-up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/phonebook/phonebook.h"
#include "tasks/slices.h"
#include "tasks/text/composed_task.h"

namespace mixerbench::tasks::phonebook {

class PhonebookTask final : public ComposedTask {
 public:
  PhonebookTask(const PhonebookParams& params, std::shared_ptr<TextLibrary> library,
                std::shared_ptr<const Tokenizer> tokenizer);

  // Tokens that any sample fits into, response included.
  std::int64_t MinInputSeqLen() const;

  std::string canon() const override;
  std::string Answer(std::string_view prompt) const override;
  AnswerType answer_type() const override { return AnswerType::kNumber; }
  std::vector<std::string> metrics() const override { return {"exact", "prefix5"}; }
  std::vector<SliceKey> slice_keys() const override {
    return {DecileSlice("depth"), CountSlice("num_entries")};
  }

 protected:
  Composition Compose(const SampleStream& stream) const override;
  std::string DrawAnswer(const SampleStream& stream) const override;
  std::int64_t max_answer_bytes() const override;
  void SliceBuckets(std::string_view prompt, std::span<std::int32_t> buckets) const override;

 private:
  // How many entries there are, and the three that are shown again: two solved, one asked for.
  struct Plan {
    std::uint32_t num_entries = 0;
    std::vector<std::uint32_t> repeated;
  };
  Plan DrawPlan(const SampleStream& stream) const;

  PhonebookParams params_;
  std::shared_ptr<TextLibrary> library_;
  const std::vector<std::string>& adjectives_;
  const std::vector<std::string>& nouns_;
};

}  // namespace mixerbench::tasks::phonebook
