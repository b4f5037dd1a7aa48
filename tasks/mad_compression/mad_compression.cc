// SPDX-License-Identifier: Apache-2.0
#include "tasks/mad_compression/mad_compression.h"

#include "tasks/canon.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::mad_compression {
namespace {

class MadCompressionTask final : public SampledTask<MadCompressionSampler> {
 public:
  explicit MadCompressionTask(const MadCompressionParams& params)
      : SampledTask({.vocab_size = static_cast<std::uint32_t>(params.vocab_size),
                     .seq_len = static_cast<std::uint32_t>(params.input_seq_len),
                     .noise_vocab_size = static_cast<std::uint32_t>(params.noise_vocab_size),
                     .noise_threshold = BernoulliThreshold(params.frac_noise)}),
        params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = params_.vocab_size,
            .seq_len = params_.input_seq_len,
            .max_num_scored = params_.input_seq_len,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("mad_compression")
        .Integer("L", params_.input_seq_len)
        .Real("frac_noise", params_.frac_noise)
        .Integer("noise_vocab", params_.noise_vocab_size)
        .Integer("vocab", params_.vocab_size)
        .Text();
  }

  // Every position asks for its own token.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      answers[i] = inputs[static_cast<std::size_t>(positions[i])];
    }
  }

  std::vector<Baseline> baselines() const override {
    const double per_token = 1.0 / static_cast<double>(sampler().num_data_tokens());
    // Accuracy is over the answers of all samples: for one compression token there are so many data
    // tokens that are not noise.
    const double num_data =
        static_cast<double>(params_.input_seq_len - 1) * (1 - params_.frac_noise);
    const double compression_share = 1 / (1 + num_data);
    return {
        {.name = "uniform over data tokens, the compression token known",
         .accuracy = (1 - compression_share) * per_token + compression_share,
         .knows_position = true,
         .accuracy_at = [=, compression = sampler().compression_token()](
                            std::int64_t,
                            std::int32_t label) { return label == compression ? 1.0 : per_token; }},
        {"uniform over data tokens, without the compression token", per_token}};
  }

  std::vector<SliceKey> slice_keys() const override {
    return {{"token", {"data", "compression"}}, DecileSlice("position")};
  }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    std::size_t row = 0;
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      if (labels[t] == kIgnore) continue;
      buckets[row] = inputs[t] == sampler().compression_token() ? 1 : 0;
      buckets[row + 1] = DecileBucket(static_cast<std::int64_t>(t), params_.input_seq_len);
      row += 2;
    }
  }

 private:
  MadCompressionParams params_;
};

std::vector<Preset> Presets() {
  return MadGrid("mad/c", MadCompressionFields().Write({}), 12800, "MAD compression; RESONA Tab 1")
      .Vary("vocab_size", {32, 64, 128})
      .Vary("input_seq_len", {64, 128, 256})
      .VaryNumTrain()
      .presets();
}

}  // namespace

const Fields<MadCompressionParams>& MadCompressionFields() {
  using Params = MadCompressionParams;
  static const auto fields =
      Fields<Params>()
          .Add("vocab_size", &Params::vocab_size,
               "data, noise tokens and, last, the compression token")
          .Add("input_seq_len", &Params::input_seq_len, "data tokens and the compression token")
          .Add("noise_vocab_size", &Params::noise_vocab_size,
               "how many ids of the vocabulary are noise")
          .Add("frac_noise", &Params::frac_noise,
               "probability that a data token is replaced by noise, which is not asked for");
  return fields;
}

void Validate(const MadCompressionParams& params, const std::string& where) {
  const NamedValue vocab_size("vocab_size", params.vocab_size);
  const NamedValue noise_vocab_size("noise_vocab_size", params.noise_vocab_size);
  const NamedValue frac_noise("frac_noise", params.frac_noise);
  const Rules rules("mad_compression", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({{"input_seq_len", params.input_seq_len}});
  rules.Must(params.noise_vocab_size >= 0, "noise_vocab_size must be >= 0", {noise_vocab_size});
  rules.NoiseFraction(frac_noise, noise_vocab_size);
  rules.Must(params.noise_vocab_size <= params.vocab_size - 3,
             "vocab_size - 1 - noise_vocab_size must be >= 2", {vocab_size, noise_vocab_size});
}

std::unique_ptr<Task> MakeMadCompression(const MadCompressionParams& params) {
  return std::make_unique<MadCompressionTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "mad_compression",
      WithOptions<MadCompressionParams>(
          {.summary = "reproduce a whole sequence from the hidden state at its last position",
           .source = "Poli et al., MAD, ICML 2024 (arXiv 2403.17844)",
           .needs_autoencoder = true,
           .aliases = {"compression"},
           .presentation_params = {},
           .presets = Presets(),
           .deviations = {"Q20: noise tokens are not labels",
                          "Q25, Q26: samples and splits never repeat one another's streams",
                          "Q29: accuracy over the split and over batches are both reported"}},
          MadCompressionFields(), Validate, MakeMadCompression));
}

}  // namespace mixerbench::tasks::mad_compression
