// SPDX-License-Identifier: Apache-2.0
#include "tasks/mad_memorization/mad_memorization.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/presets.h"
#include "tasks/rules.h"

namespace mixerbench::tasks::mad_memorization {
namespace {

MadMemorizationSampler MakeSampler(const MadMemorizationParams& params) {
  return {.vocab_size = static_cast<std::uint32_t>(params.vocab_size),
          .num_slots = static_cast<std::uint32_t>(params.input_seq_len / 2),
          .noise_vocab_size = static_cast<std::uint32_t>(params.noise_vocab_size),
          .noise_threshold = BernoulliThreshold(params.frac_noise)};
}

// The value of every key: the same for all samples, splits and seeds.
std::vector<std::uint32_t> MakeMap(const MadMemorizationParams& params,
                                   const MadMemorizationSampler& sampler) {
  constexpr std::uint32_t kMapStream = 0;
  constexpr std::uint64_t kNoSplit = 0;
  const std::string canon = Canon("mad_memorization.map")
                                .Integer("noise_vocab", params.noise_vocab_size)
                                .Integer("vocab", params.vocab_size)
                                .Text();
  const SampleStream stream{
      DeriveKey(canon, static_cast<std::uint64_t>(params.map_seed), kNoSplit)};
  const std::uint32_t num_keys = sampler.num_keys();
  std::vector<std::uint32_t> map(num_keys);
  std::vector<std::uint32_t> scratch(
      static_cast<std::size_t>(PickScratchWords(sampler.num_values(), num_keys)));
  Pick(stream, kMapStream, sampler.num_values(), num_keys, 0, map.data(), scratch.data());
  for (std::uint32_t& value : map) value += num_keys;
  return map;
}

class MadMemorizationTask final : public SampledTask<MadMemorizationSampler> {
 public:
  MadMemorizationTask(const MadMemorizationParams& params, const MadMemorizationSampler& sampler)
      : SampledTask(sampler, MakeMap(params, sampler)), params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = params_.vocab_size,
            .seq_len = sampler().seq_len(),
            .max_num_scored = sampler().num_slots,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("mad_memorization")
        .Integer("L", params_.input_seq_len)
        .Real("frac_noise", params_.frac_noise)
        .Integer("noise_vocab", params_.noise_vocab_size)
        .Integer("vocab", params_.vocab_size)
        .Text();
  }

  // Knows the map, as a learner that has seen every key would.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      Require(positions[i] >= 1, "a key stands before every answer");
      const auto key = static_cast<std::size_t>(inputs[static_cast<std::size_t>(positions[i]) - 1]);
      answers[i] = key < tables().size() ? static_cast<std::int32_t>(tables()[key]) : kIgnore;
    }
  }

  // The share of test keys that occur in the training samples.
  double Ceiling(const SampleRange& train, const SampleRange& test) const override {
    std::vector<bool> is_seen(sampler().num_keys());
    ForEachKey(train, [&](std::size_t key) { is_seen[key] = true; });
    std::int64_t num_keys = 0;
    std::int64_t num_known = 0;
    ForEachKey(test, [&](std::size_t key) {
      ++num_keys;
      num_known += is_seen[key];
    });
    return num_keys == 0 ? 1.0 : static_cast<double>(num_known) / static_cast<double>(num_keys);
  }

  std::vector<Baseline> baselines() const override {
    return {{"uniform over values", 1.0 / static_cast<double>(sampler().num_values())}};
  }

  void AssignSlices(std::span<const std::int32_t> /*inputs*/,
                    std::span<const std::int32_t> /*labels*/,
                    std::span<std::int32_t> /*buckets*/) const override {}

 private:
  template <typename Step>
  void ForEachKey(const SampleRange& range, const Step& step) const {
    const auto length = static_cast<std::size_t>(sampler().seq_len());
    std::vector<std::int32_t> inputs(length);
    std::vector<std::int32_t> labels(length);
    std::vector<std::uint32_t> scratch(static_cast<std::size_t>(sampler().scratch_words()));
    for (std::uint64_t index = 0; index < range.count; ++index) {
      Generate({range.key, index}, LabelMode::kScored, inputs, labels, scratch);
      for (std::size_t t = 1; t < length; t += 2) {
        if (labels[t] != kIgnore) step(static_cast<std::size_t>(inputs[t - 1]));
      }
    }
  }

  MadMemorizationParams params_;
};

std::vector<Preset> Presets() {
  return MadGrid("mad/m", MadMemorizationFields().Write({}), 256, "MAD memorization; RESONA Tab 1")
      .Vary("vocab_size", {512, 1024, 2048, 4096, 8192})
      .presets();
}

MadMemorizationParams Parse(const Value& value, const std::string& where) {
  const MadMemorizationParams params = MadMemorizationFields().Parse(value, where);
  Validate(params, where);
  return params;
}

}  // namespace

const Fields<MadMemorizationParams>& MadMemorizationFields() {
  using Params = MadMemorizationParams;
  static const auto fields =
      Fields<Params>()
          .Add("vocab_size", &Params::vocab_size,
               "keys, values, noise tokens and, last, the insert token")
          .Add("input_seq_len", &Params::input_seq_len,
               "tokens of one sample; an odd length loses its last one")
          .Add("noise_vocab_size", &Params::noise_vocab_size,
               "how many ids of the vocabulary are noise")
          .Add("frac_noise", &Params::frac_noise, "probability that a slot is noise")
          .Add("map_seed", &Params::map_seed,
               "which map from keys to values; the inputs do not depend on it");
  return fields;
}

void Validate(const MadMemorizationParams& params, const std::string& where) {
  const NamedValue vocab_size("vocab_size", params.vocab_size);
  const NamedValue noise_vocab_size("noise_vocab_size", params.noise_vocab_size);
  const NamedValue frac_noise("frac_noise", params.frac_noise);
  const Rules rules("mad_memorization", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({{"input_seq_len", params.input_seq_len}});
  rules.Must(params.noise_vocab_size >= 0, "noise_vocab_size must be >= 0", {noise_vocab_size});
  rules.Fraction(frac_noise, 0, 1);
  rules.Must(params.noise_vocab_size > 0 || params.frac_noise == 0,
             "noise_vocab_size must be > 0 when frac_noise > 0", {noise_vocab_size, frac_noise});
  rules.Must(params.noise_vocab_size <= params.vocab_size - 3,
             "need at least 1 key (vocab_size - 1 - noise_vocab_size >= 2)",
             {vocab_size, noise_vocab_size});
  rules.Must(params.map_seed >= 0, "map_seed must be >= 0", {{"map_seed", params.map_seed}});
}

std::unique_ptr<Task> MakeMadMemorization(const MadMemorizationParams& params) {
  return std::make_unique<MadMemorizationTask>(params, MakeSampler(params));
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "mad_memorization",
      {.summary = "a fixed map from keys to values, learned from training data alone",
       .source = "Poli et al., MAD, ICML 2024 (arXiv 2403.17844)",
       .aliases = {"memorization"},
       .params = MadMemorizationFields().Describe(),
       .presentation_params = {"map_seed"},
       .presets = Presets(),
       .deviations = {"Q15: keys and values leave out the noise tokens",
                      "Q16: an odd length loses its last token, as in MAD",
                      "Q25, Q26: samples and splits never repeat one another's streams",
                      "Q29: accuracy over the split and over batches are both reported"},
       .create = [](const Value& value,
                    const std::string& where) { return MakeMadMemorization(Parse(value, where)); },
       .resolve =
           [](const Value& value, const std::string& where) {
             return MadMemorizationFields().Write(Parse(value, where));
           }});
}

}  // namespace mixerbench::tasks::mad_memorization
