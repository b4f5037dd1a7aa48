// SPDX-License-Identifier: Apache-2.0
#include "tasks/mad_memorization/mad_memorization.h"

#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/task_entry.h"

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

// Calls step(key, value) for every pair of every sample.
template <typename Step>
void ForEachPair(const TaskSamples& samples, const Step& step) {
  const TaskShape shape = samples.task.shape();
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(shape.seq_len));
  std::vector<std::int32_t> labels(inputs.size());
  std::vector<std::uint32_t> scratch(static_cast<std::size_t>(shape.scratch_words));
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(samples.count); ++i) {
    samples.task.Generate({samples.key, samples.first + i}, LabelMode::kScored, inputs, labels,
                          scratch);
    for (std::size_t t = 1; t < labels.size(); t += 2) {
      if (labels[t] != kIgnore) step(inputs[t - 1], labels[t]);
    }
  }
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

  // The share of test answers whose key occurs in the training samples with the same value.
  double Ceiling(std::span<const TaskSamples> train, const TaskSamples& test) const override {
    std::map<std::int32_t, std::int32_t> known;
    for (const TaskSamples& samples : train) {
      ForEachPair(samples, [&](std::int32_t key, std::int32_t value) { known[key] = value; });
    }
    std::int64_t num_answers = 0;
    std::int64_t num_known = 0;
    ForEachPair(test, [&](std::int32_t key, std::int32_t value) {
      const auto found = known.find(key);
      ++num_answers;
      num_known += found != known.end() && found->second == value;
    });
    return num_answers == 0 ? 1.0
                            : static_cast<double>(num_known) / static_cast<double>(num_answers);
  }

  std::vector<Baseline> baselines() const override {
    // No two keys share a value, and the map is the same in all samples.
    return {
        {"uniform over the values of the map", 1.0 / static_cast<double>(sampler().num_keys())}};
  }

  void AssignSlices(std::span<const std::int32_t> /*inputs*/,
                    std::span<const std::int32_t> /*labels*/,
                    std::span<std::int32_t> /*buckets*/) const override {}

 private:
  MadMemorizationParams params_;
};

std::vector<Preset> Presets() {
  return MadGrid("mad/m", MadMemorizationFields().Write({}), 256, "MAD memorization; RESONA Tab 1")
      .Vary("vocab_size", {512, 1024, 2048, 4096, 8192})
      .presets();
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
  rules.NoiseFraction(frac_noise, noise_vocab_size);
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
      WithOptions<MadMemorizationParams>(
          {.summary = "a fixed map from keys to values, learned from training data alone",
           .source = "Poli et al., MAD, ICML 2024 (arXiv 2403.17844)",
           .aliases = {"memorization"},
           .presentation_params = {"map_seed"},
           .presets = Presets(),
           .deviations = {"Q15: keys and values leave out the noise tokens",
                          "Q16: an odd length loses its last token, as in MAD",
                          "Q25, Q26: samples and splits never repeat one another's streams",
                          "Q29: accuracy over the split and over batches are both reported"}},
          MadMemorizationFields(), Validate, MakeMadMemorization));
}

}  // namespace mixerbench::tasks::mad_memorization
