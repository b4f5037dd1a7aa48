// SPDX-License-Identifier: Apache-2.0
#include "tasks/induction_heads/induction_heads.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::induction_heads {
namespace {

class InductionHeadsTask final : public SampledTask<InductionHeadsSampler> {
 public:
  explicit InductionHeadsTask(const InductionHeadsParams& params)
      : SampledTask({.vocab_size = static_cast<std::uint32_t>(params.vocab_size),
                     .input_seq_len = static_cast<std::uint32_t>(params.input_seq_len),
                     .prefix_len = static_cast<std::uint32_t>(params.prefix_len)}),
        params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = params_.vocab_size + 1,
            .seq_len = params_.input_seq_len,
            .max_num_scored = 1,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("induction_heads")
        .Integer("L", params_.input_seq_len)
        .Integer("prefix", params_.prefix_len)
        .Integer("vocab", params_.vocab_size)
        .Text();
  }

  // The token after the first special one.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
             std::span<std::int32_t> answers) const override {
    const std::size_t memory = FirstSpecial(inputs) + 1;
    for (std::int32_t& answer : answers) answer = inputs[memory];
  }

  std::vector<Baseline> baselines() const override {
    return {{"uniform over ordinary tokens", 1.0 / static_cast<double>(params_.vocab_size)}};
  }

  std::vector<SliceKey> slice_keys() const override { return {DecileSlice("depth")}; }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
                    std::span<std::int32_t> buckets) const override {
    buckets[0] =
        DecileBucket(static_cast<std::int64_t>(FirstSpecial(inputs)), params_.input_seq_len);
  }

 private:
  std::size_t FirstSpecial(std::span<const std::int32_t> inputs) const {
    const auto found = std::find(inputs.begin(), inputs.end(), params_.vocab_size);
    Require(found + 1 < inputs.end(), "the special token is shown before the end");
    return static_cast<std::size_t>(found - inputs.begin());
  }

  InductionHeadsParams params_;
};

InductionHeadsParams WithDefaults(InductionHeadsParams params) {
  if (params.prefix_len == -1) params.prefix_len = params.input_seq_len - 2;
  return params;
}

std::vector<Preset> Presets() {
  constexpr std::int64_t kTrainLen = 256, kNumTest = 1000;
  const auto params = [](std::int64_t input_seq_len) {
    return InductionHeadsFields().Write(WithDefaults({.input_seq_len = input_seq_len}));
  };
  std::vector<std::int64_t> lengths;
  for (std::int64_t length = 64; length <= 1 << 20; length *= 2) lengths.push_back(length);
  return {MixturePreset("induction/mamba", EachSegment({kTrainLen}, 0, params),
                        EachSegment(lengths, kNumTest, params), "Mamba Tab 2")};
}

}  // namespace

const Fields<InductionHeadsParams>& InductionHeadsFields() {
  using Params = InductionHeadsParams;
  static const auto fields =
      Fields<Params>()
          .Add("vocab_size", &Params::vocab_size,
               "ordinary tokens; the special token is one more, with the highest id")
          .Add("input_seq_len", &Params::input_seq_len, "tokens of one sample")
          .Add("prefix_len", &Params::prefix_len,
               "the special token first stands at 0..prefix_len-1; -1: input_seq_len - 2");
  return fields;
}

void Validate(const InductionHeadsParams& params, const std::string& where) {
  const NamedValue input_seq_len("input_seq_len", params.input_seq_len);
  const Rules rules("induction_heads", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({input_seq_len});
  rules.Must(params.prefix_len >= 1 && params.prefix_len <= params.input_seq_len - 2,
             "prefix_len must be in [1, input_seq_len - 2]",
             {{"prefix_len", params.prefix_len}, input_seq_len});
  rules.Must(params.input_seq_len >= 4, "input_seq_len must be >= 4", {input_seq_len});
}

std::unique_ptr<Task> MakeInductionHeads(const InductionHeadsParams& params) {
  return std::make_unique<InductionHeadsTask>(WithDefaults(params));
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "induction_heads",
      WithOptions<InductionHeadsParams>(
          {.summary = "name the token that followed the special token when it was shown before",
           .source =
               "Gu and Dao, Mamba (arXiv 2312.00752) 4.1.2; Olsson et al. 2022; Fu et al., H3",
           .aliases = {"induction", "mamba_induction_heads"},
           .presentation_params = {},
           .presets = Presets(),
           .deviations =
               {"whether Mamba's 16 tokens count the special one is not stated: here they do "
                "not",
                "Q42: learning it depends on the loss mode; reports state it"}},
          InductionHeadsFields(), Validate, MakeInductionHeads, WithDefaults));
}

}  // namespace mixerbench::tasks::induction_heads
