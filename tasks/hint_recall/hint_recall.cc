// SPDX-License-Identifier: Apache-2.0
#include "tasks/hint_recall/hint_recall.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tasks/canon.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::hint_recall {
namespace {

class HintRecallTask final : public SampledTask<HintRecallSampler> {
 public:
  explicit HintRecallTask(const HintRecallParams& params)
      : SampledTask({.vocab_size = static_cast<std::uint32_t>(params.vocab_size),
                     .input_seq_len = static_cast<std::uint32_t>(params.input_seq_len),
                     .num_hints = params.hint ? static_cast<std::uint32_t>(params.hint_prefix) : 0,
                     .num_targets = static_cast<std::uint32_t>(params.target_dup),
                     .depth_percent = static_cast<std::int32_t>(params.depth_percent),
                     .noise_vocab_size = static_cast<std::uint32_t>(params.noise_vocab_size),
                     .noise_threshold = BernoulliThreshold(params.frac_noise)}),
        params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = params_.vocab_size + params_.noise_vocab_size,
            .seq_len = sampler().seq_len(),
            .max_num_scored = 1,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("hint_recall")
        .Integer("L", params_.input_seq_len)
        .Integer("vocab", params_.vocab_size)
        .Text();
  }

  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
             std::span<std::int32_t> answers) const override {
    const std::int64_t slot = TargetSlot(inputs);
    for (std::int32_t& answer : answers) {
      answer = slot < 0 ? kIgnore : inputs[PositionOf(slot) + 1];
    }
  }

  std::vector<Baseline> baselines() const override {
    const double uniform = 1.0 / static_cast<double>(params_.vocab_size - sampler().num_keys());
    return {{"uniform over values", uniform}, {"some value of the context", SomeValue(uniform)}};
  }

  std::vector<SliceKey> slice_keys() const override { return {DecileSlice("depth")}; }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
                    std::span<std::int32_t> buckets) const override {
    buckets[0] = DecileBucket(TargetSlot(inputs), sampler().num_pairs());
  }

 private:
  // A value drawn from those shown is the target's in target_dup of the pairs that are not noise,
  // and may be the same by luck in the others, which are binomially many.
  double SomeValue(double uniform) const {
    const auto num_targets = static_cast<double>(params_.target_dup);
    const double most = static_cast<double>(sampler().num_pairs()) - num_targets;
    const double noise = params_.frac_noise;
    double target_share = noise == 0 ? num_targets / (num_targets + most) : 0;
    for (double others = 0; noise > 0 && others <= most; ++others) {
      const double log_rate = std::lgamma(most + 1) - std::lgamma(others + 1) -
                              std::lgamma(most - others + 1) + others * std::log1p(-noise) +
                              (most - others) * std::log(noise);
      target_share += std::exp(log_rate) * num_targets / (num_targets + others);
    }
    return target_share + (1 - target_share) * uniform;
  }

  std::size_t PositionOf(std::int64_t slot) const {
    return sampler().first_pair() + 2 * static_cast<std::size_t>(slot);
  }

  // The first pair whose key is asked at the end, -1 for none.
  std::int64_t TargetSlot(std::span<const std::int32_t> inputs) const {
    for (std::int64_t slot = 0; slot < sampler().num_pairs(); ++slot) {
      if (inputs[PositionOf(slot)] == inputs.back()) return slot;
    }
    return -1;
  }

  HintRecallParams params_;
};

std::vector<Preset> Presets() {
  constexpr std::int64_t kNumTest = 1000, kNumTestPerDepth = 200;
  const auto params = [](const HintRecallParams& p) { return HintRecallFields().Write(p); };
  const auto by_length = [&](std::string name, bool hint, LabelMode labels,
                             std::string reproduces) {
    const auto of_length = [&](std::int64_t input_seq_len) {
      return params({.input_seq_len = input_seq_len, .hint = hint});
    };
    Preset preset = MixturePreset(
        std::move(name), {{params({.hint = hint}), 0}},
        EachSegment({128, 256, 512, 1024, 2048, 4096, 8192, 12800}, kNumTest, of_length),
        std::move(reproduces));
    preset.train_labels = labels;
    return preset;
  };
  const auto of_depth = [&](std::int64_t depth_percent) {
    return params({.input_seq_len = 4096, .depth_percent = depth_percent});
  };
  const Preset depth = MixturePreset(
      "hint/depth", {{params({}), 0}},
      EachSegment({0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}, kNumTestPerDepth, of_depth),
      "accuracy by depth at 4096 tokens, of models trained at 128");
  return {by_length("hint/sila-std", true, LabelMode::kAllTokens,
                    "SILA Fig 6a, trained on all tokens; vocabulary assumed"),
          by_length("hint/sila-target", true, LabelMode::kTargetOnly,
                    "SILA Fig 6b, trained on the target only; vocabulary assumed"),
          by_length("hint/nohint", false, LabelMode::kTargetOnly,
                    "control of sila-target: the same samples without the hint"),
          depth};
}

}  // namespace

const Fields<HintRecallParams>& HintRecallFields() {
  static const auto fields =
      Fields<HintRecallParams>()
          .Add("vocab_size", &HintRecallParams::vocab_size,
               "the lower half keys, the upper half values")
          .Add("input_seq_len", &HintRecallParams::input_seq_len,
               "tokens of one sample, the hint included; even")
          .Add("hint", &HintRecallParams::hint,
               "show the key that will be asked before the pairs; false: leave it out")
          .Add("hint_prefix", &HintRecallParams::hint_prefix,
               "hints shown: one is the key that will be asked, the others are keys of other pairs")
          .Add("target_dup", &HintRecallParams::target_dup,
               "how often the pair that is asked comes, in place of others")
          .Add("depth_percent", &HintRecallParams::depth_percent,
               "place of the target among the pairs, 0 first, 100 last; -1: uniform")
          .Add("noise_vocab_size", &HintRecallParams::noise_vocab_size,
               "how many ids after those of vocab_size are noise")
          .Add("frac_noise", &HintRecallParams::frac_noise,
               "probability that another pair is two noise tokens instead");
  return fields;
}

void Validate(const HintRecallParams& params, const std::string& where) {
  const NamedValue vocab_size("vocab_size", params.vocab_size);
  const NamedValue input_seq_len("input_seq_len", params.input_seq_len);
  const Rules rules("hint_recall", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({input_seq_len});
  rules.Must(params.input_seq_len % 2 == 0, "input_seq_len must be even", {input_seq_len});
  rules.Must(params.input_seq_len >= 4, "input_seq_len must be >= 4", {input_seq_len});
  rules.Must(params.vocab_size >= 6, "vocab_size must be >= 6", {vocab_size});
  const std::int64_t most = std::min<std::int64_t>((params.input_seq_len - 2) / 2, kMaxRepeats);
  const std::string range = " must be in [1, " + std::to_string(most) + "]";
  rules.Must(params.hint_prefix >= 1 && params.hint_prefix <= most, "hint_prefix" + range,
             {{"hint_prefix", params.hint_prefix}});
  rules.Must(params.target_dup >= 1 && params.target_dup <= most, "target_dup" + range,
             {{"target_dup", params.target_dup}});
  rules.Must(params.depth_percent >= -1 && params.depth_percent <= 100,
             "depth_percent must be in [0, 100], or -1 for a uniform depth",
             {{"depth_percent", params.depth_percent}});
  const NamedValue noise_vocab_size("noise_vocab_size", params.noise_vocab_size);
  const NamedValue frac_noise("frac_noise", params.frac_noise);
  rules.Must(params.noise_vocab_size >= 0 && params.noise_vocab_size <= 1 << 24,
             "noise_vocab_size must be in [0, 16777216]", {noise_vocab_size});
  rules.NoiseFraction(frac_noise, noise_vocab_size);
}

std::unique_ptr<Task> MakeHintRecall(const HintRecallParams& params) {
  return std::make_unique<HintRecallTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "hint_recall",
      WithOptions<HintRecallParams>(
          {.summary = "recall one of many pairs, whose key is shown before them",
           .source = "SILA, section 5.1",
           .aliases = {"sila_retrieval"},
           .presentation_params = {"hint", "hint_prefix", "target_dup", "depth_percent",
                                   "noise_vocab_size", "frac_noise"},
           .presets = Presets(),
           .deviations =
               {"vocabulary, a single occurrence of the target and online data are not stated "
                "by SILA and assumed"}},
          HintRecallFields(), Validate, MakeHintRecall));
}

}  // namespace mixerbench::tasks::hint_recall
