// SPDX-License-Identifier: Apache-2.0
#include "tasks/mad_selective_copying/mad_selective_copying.h"

#include <vector>

#include "tasks/canon.h"
#include "tasks/drawn_guesses.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::mad_selective_copying {
namespace {

class MadSelectiveCopyingTask final : public SampledTask<MadSelectiveCopyingSampler> {
 public:
  explicit MadSelectiveCopyingTask(const MadSelectiveCopyingParams& params)
      : SampledTask({.vocab_size = static_cast<std::uint32_t>(params.vocab_size),
                     .seq_len = static_cast<std::uint32_t>(params.input_seq_len),
                     .num_tokens = static_cast<std::uint32_t>(params.num_tokens_to_copy),
                     .is_selective = params.selective}),
        params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = params_.vocab_size,
            .seq_len = params_.input_seq_len,
            .max_num_scored = params_.num_tokens_to_copy,
            .scratch_words = sampler().scratch_words()};
  }

  // Plain copying is a task of its own in MAD.
  std::string canon() const override {
    return Canon(params_.selective ? "mad_selective_copying" : "mad_copying")
        .Integer("K", params_.num_tokens_to_copy)
        .Integer("L", params_.input_seq_len)
        .Integer("vocab", params_.vocab_size)
        .Text();
  }

  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    const std::vector<std::int64_t> sources = DataPositions(inputs);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto target = static_cast<std::size_t>(positions[i]) - sampler().first_answer();
      answers[i] = inputs[static_cast<std::size_t>(sources.at(target))];
    }
  }

  std::vector<Baseline> baselines() const override {
    const auto is_data = [this](std::int32_t token) {
      return static_cast<std::uint32_t>(token) < sampler().num_data_tokens();
    };
    return {{"uniform over data tokens", 1.0 / static_cast<double>(sampler().num_data_tokens())},
            CommonestShown(*this, "the commonest data token of the sample", is_data)};
  }

  std::vector<SliceKey> slice_keys() const override {
    return {CountSlice("target_index"), DecileSlice("distance_from_end")};
  }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t> /*labels*/,
                    std::span<std::int32_t> buckets) const override {
    const std::vector<std::int64_t> sources = DataPositions(inputs);
    for (std::size_t m = 0; m < sources.size(); ++m) {
      buckets[2 * m] = CountBucket(static_cast<std::int64_t>(m));
      buckets[2 * m + 1] = DecileBucket(prefix_len() - 1 - sources[m], prefix_len());
    }
  }

 private:
  // Tokens before the copy token.
  std::int64_t prefix_len() const { return params_.input_seq_len - params_.num_tokens_to_copy - 1; }

  // Where the data tokens stand, in order.
  std::vector<std::int64_t> DataPositions(std::span<const std::int32_t> inputs) const {
    std::vector<std::int64_t> found;
    for (std::int64_t t = 0; t < prefix_len(); ++t) {
      const auto token = static_cast<std::uint32_t>(inputs[static_cast<std::size_t>(t)]);
      if (token < sampler().num_data_tokens()) found.push_back(t);
    }
    return found;
  }

  MadSelectiveCopyingParams params_;
};

std::vector<Preset> Presets() {
  constexpr std::int64_t kNumTrain = 12800;
  std::vector<Preset> presets = MadGrid("mad/sc", MadSelectiveCopyingFields().Write({}), kNumTrain,
                                        "MAD selective copying; RESONA Tab 1")
                                    .Vary("vocab_size", {32, 64, 128})
                                    .Vary("input_seq_len", {512, 1024})
                                    .VaryNumTrain()
                                    .Vary("num_tokens_to_copy", {32, 64, 96})
                                    .presets();
  presets.push_back({.name = "mad/copying",
                     .params = MadSelectiveCopyingFields().Write({.selective = false}),
                     .num_train = kNumTrain,
                     .num_test = 1280,
                     .seed = kMadSeed,
                     .reproduces = "MAD copying, not in its benchmark"});
  return presets;
}

}  // namespace

const Fields<MadSelectiveCopyingParams>& MadSelectiveCopyingFields() {
  using Params = MadSelectiveCopyingParams;
  static const auto fields =
      Fields<Params>()
          .Add("vocab_size", &Params::vocab_size, "data, then the blank, then the copy token")
          .Add("input_seq_len", &Params::input_seq_len,
               "tokens of one sample, the blanks to answer at included")
          .Add("num_tokens_to_copy", &Params::num_tokens_to_copy, "data tokens, and answers")
          .Add("selective", &Params::selective,
               "blanks between the data tokens; false: after them, plain copying");
  return fields;
}

void Validate(const MadSelectiveCopyingParams& params, const std::string& where) {
  const NamedValue input_seq_len("input_seq_len", params.input_seq_len);
  const NamedValue num_tokens("num_tokens_to_copy", params.num_tokens_to_copy);
  const Rules rules("mad_selective_copying", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({input_seq_len});
  // Divided, since the product could overflow.
  rules.Must(params.num_tokens_to_copy <= params.input_seq_len / 2 - 1,
             "need input_seq_len > 2*num_tokens_to_copy + 1", {input_seq_len, num_tokens});
  rules.Must(params.num_tokens_to_copy >= 1, "num_tokens_to_copy must be >= 1", {num_tokens});
  rules.Must(params.vocab_size >= 3, "vocab_size must be >= 3",
             {{"vocab_size", params.vocab_size}});
}

std::unique_ptr<Task> MakeMadSelectiveCopying(const MadSelectiveCopyingParams& params) {
  return std::make_unique<MadSelectiveCopyingTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "mad_selective_copying",
      WithOptions<MadSelectiveCopyingParams>(
          {.summary =
               "repeat data tokens in order, between blanks (selective) or not (plain copying)",
           .source = "Poli et al., MAD, ICML 2024 (arXiv 2403.17844)",
           .aliases = {"selective-copying"},
           .presentation_params = {},
           .presets = Presets(),
           .deviations =
               {"Q17: the last data token stands right before the copy token, as in MAD",
                "Q18: blanks come from a stream of the sample, not from a global generator",
                "Q19: num_tokens_to_copy takes effect; MAD before December 2024 used 16",
                "Q25, Q26: samples and splits never repeat one another's streams",
                "Q29: accuracy over the split and over batches are both reported"}},
          MadSelectiveCopyingFields(), Validate, MakeMadSelectiveCopying));
}

}  // namespace mixerbench::tasks::mad_selective_copying
