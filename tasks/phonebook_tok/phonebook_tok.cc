// SPDX-License-Identifier: Apache-2.0
#include "tasks/phonebook_tok/phonebook_tok.h"

#include <vector>

#include "tasks/canon.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::phonebook_tok {
namespace {

class PhonebookTokTask final : public SampledTask<PhonebookTokSampler> {
 public:
  explicit PhonebookTokTask(const PhonebookTokParams& params)
      : SampledTask({.num_entries = static_cast<std::uint32_t>(params.num_entries)}),
        params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = kVocabSize,
            .seq_len = sampler().seq_len(),
            .max_num_scored = kNumDigits,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("phonebook_tok").Integer("n", params_.num_entries).Text();
  }

  // Looks the name up; the digits of the answer that are inputs are not needed.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    const std::int64_t entry = AskedEntry(inputs);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const std::int64_t digit = positions[i] - sampler().first_scored();
      answers[i] = entry < 0
                       ? kIgnore
                       : inputs[static_cast<std::size_t>(kEntryLen * entry + kNameLen + digit)];
    }
  }

  std::vector<Baseline> baselines() const override {
    return {{"uniform over digits", 1.0 / kNumDigits}};
  }

  std::vector<SliceKey> slice_keys() const override {
    SliceKey digit_index{"digit_index", {}};
    for (std::uint32_t i = 0; i < kNumDigits; ++i) digit_index.buckets.push_back(std::to_string(i));
    return {DecileSlice("depth"), digit_index};
  }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
                    std::span<std::int32_t> buckets) const override {
    const std::int32_t depth = DecileBucket(AskedEntry(inputs), params_.num_entries);
    for (std::size_t i = 0; i < kNumDigits; ++i) {
      buckets[2 * i] = depth;
      buckets[2 * i + 1] = static_cast<std::int32_t>(i);
    }
  }

 private:
  // The entry with the name of the question, -1 for none.
  std::int64_t AskedEntry(std::span<const std::int32_t> inputs) const {
    const auto name_at = [&](std::int64_t entry) {
      return inputs.subspan(static_cast<std::size_t>(kEntryLen * entry), 2);
    };
    const auto asked = name_at(params_.num_entries);
    for (std::int64_t entry = 0; entry < params_.num_entries; ++entry) {
      const auto name = name_at(entry);
      if (name[0] == asked[0] && name[1] == asked[1]) return entry;
    }
    return -1;
  }

  PhonebookTokParams params_;
};

std::vector<Preset> Presets() {
  std::vector<Preset> presets;
  for (const std::int64_t num_entries : {10, 20, 50, 100, 200, 300}) {
    presets.push_back({.name = "phonebook_tok/num_entries-" + std::to_string(num_entries),
                       .params = PhonebookTokFields().Write({num_entries}),
                       .num_test = 500,
                       .reproduces = "phone books of Jelassi et al. 2024, in tokens"});
  }
  return presets;
}

}  // namespace

const Fields<PhonebookTokParams>& PhonebookTokFields() {
  static const auto fields = Fields<PhonebookTokParams>().Add(
      "num_entries", &PhonebookTokParams::num_entries, "names with a number");
  return fields;
}

void Validate(const PhonebookTokParams& params, const std::string& where) {
  constexpr std::int64_t kMaxNumEntries = std::int64_t{kNumNames} * kNumNames;
  Rules("phonebook_tok", where)
      .Must(params.num_entries >= 1 && params.num_entries <= kMaxNumEntries,
            "num_entries must be in [1, 1000000]", {{"num_entries", params.num_entries}});
}

std::unique_ptr<Task> MakePhonebookTok(const PhonebookTokParams& params) {
  return std::make_unique<PhonebookTokTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "phonebook_tok",
      WithOptions<PhonebookTokParams>(
          {.summary = "a list of names with numbers of ten digits, then one name: say its number",
           .source = "Jelassi et al., Repeat After Me (arXiv 2402.01032)",
           .aliases = {},
           .presentation_params = {},
           .presets = Presets(),
           .deviations = {"Q37: names are distinct",
                          "names are two tokens, not text; no examples before the question"}},
          PhonebookTokFields(), Validate, MakePhonebookTok));
}

}  // namespace mixerbench::tasks::phonebook_tok
