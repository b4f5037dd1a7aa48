// SPDX-License-Identifier: Apache-2.0
#include "tasks/mad_icr/mad_icr.h"

#include <unordered_map>
#include <vector>

#include "tasks/canon.h"
#include "tasks/drawn_guesses.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::mad_icr {
namespace {

class MadIcrTask final : public SampledTask<MadIcrSampler> {
 public:
  explicit MadIcrTask(const MadIcrParams& params)
      : SampledTask({.vocab_size = static_cast<std::uint32_t>(params.vocab_size),
                     .input_seq_len = static_cast<std::uint32_t>(params.input_seq_len),
                     .is_multi_query = params.multi_query,
                     .noise_vocab_size = static_cast<std::uint32_t>(params.noise_vocab_size),
                     .noise_threshold = BernoulliThreshold(params.frac_noise)}),
        params_(params) {}

  TaskShape shape() const override {
    // The first pair cannot be a repetition, the probe always is one.
    return {.vocab_size = params_.vocab_size,
            .seq_len = sampler().seq_len(),
            .max_num_scored = params_.multi_query ? sampler().num_slots() : 1,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("mad_icr")
        .Integer("L", params_.input_seq_len)
        .Real("frac_noise", params_.frac_noise)
        .Flag("multi_query", params_.multi_query)
        .Integer("noise_vocab", params_.noise_vocab_size)
        .Integer("vocab", params_.vocab_size)
        .Text();
  }

  // The value that followed the key when it was first shown.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    std::unordered_map<std::int32_t, std::int32_t> value_of;
    for (std::size_t slot = 0; slot < sampler().num_slots(); ++slot) {
      if (IsKey(inputs[2 * slot])) value_of.emplace(inputs[2 * slot], inputs[2 * slot + 1]);
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto found = value_of.find(inputs[static_cast<std::size_t>(positions[i])]);
      answers[i] = found == value_of.end() ? kIgnore : found->second;
    }
  }

  std::vector<Baseline> baselines() const override {
    const auto is_value = [this](std::int32_t token) {
      const auto id = static_cast<std::uint32_t>(token);
      return id >= sampler().num_keys() && id < sampler().num_recall_tokens();
    };
    return {{"uniform over values", 1.0 / static_cast<double>(sampler().num_values())},
            CommonestShown(*this, "the commonest value so far", is_value)};
  }

  std::vector<SliceKey> slice_keys() const override {
    return {OccurrenceSlice("occurrence"),
            CountSlice("slots_since_previous"),
            {"final_probe", {"final"}}};
  }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    struct Seen {
      std::int64_t count = 0;
      std::int64_t last_slot = 0;
    };
    std::unordered_map<std::int32_t, Seen> seen;
    std::size_t row = 0;
    // The probe's key stands at the start of the slot after the last; with a single query the copy
    // prefix comes first.
    for (std::int64_t slot = 0; slot <= sampler().num_slots(); ++slot) {
      const bool is_probe = slot == sampler().num_slots();
      const auto t = static_cast<std::size_t>(is_probe ? sampler().seq_len() - 1 : 2 * slot);
      if (!IsKey(inputs[t])) continue;
      Seen& key = seen[inputs[t]];
      ++key.count;
      if (labels[t] != kIgnore) {
        buckets[row] = OccurrenceBucket(key.count);
        buckets[row + 1] = CountBucket(slot - key.last_slot);
        buckets[row + 2] = is_probe ? 0 : -1;
        row += 3;
      }
      key.last_slot = slot;
    }
  }

 private:
  bool IsKey(std::int32_t token) const {
    return static_cast<std::uint32_t>(token) < sampler().num_keys();
  }

  MadIcrParams params_;
};

std::vector<Preset> Presets() {
  constexpr std::int64_t kNumTrain = 12800;
  std::vector<Preset> presets =
      MadGrid("mad/cr", MadIcrFields().Write({}), kNumTrain, "MAD in-context recall; RESONA Tab 1")
          .Vary("vocab_size", {32, 64, 128})
          .Vary("input_seq_len", {256, 512, 1024})
          .VaryNumTrain()
          .TrainOn(LabelMode::kAllTokens)
          .presets();
  const MadIcrParams noisy{.vocab_size = 32, .noise_vocab_size = 16, .frac_noise = 0.2};
  const std::vector<Preset> noisy_presets =
      MadGrid("mad/nr", MadIcrFields().Write(noisy), kNumTrain,
              "MAD noisy in-context recall; RESONA Tab 1")
          .Vary("vocab_size", {48, 80, 144})
          .Vary("input_seq_len", {256, 512, 1024})
          .VaryNumTrain()
          .Vary("frac_noise", {0.4, 0.6, 0.8})
          .TrainOn(LabelMode::kAllTokens)
          .presets();
  presets.insert(presets.end(), noisy_presets.begin(), noisy_presets.end());
  presets.push_back({.name = "ar_single",
                     .params = MadIcrFields().Write({.multi_query = false}),
                     .num_train = kNumTrain,
                     .num_test = 1280,
                     .seed = kMadSeed,
                     .reproduces = "H3 and Hyena associative recall"});
  return presets;
}

}  // namespace

const Fields<MadIcrParams>& MadIcrFields() {
  static const auto fields =
      Fields<MadIcrParams>()
          .Add("vocab_size", &MadIcrParams::vocab_size,
               "keys, values, noise tokens and (single query) the copy prefix")
          .Add("input_seq_len", &MadIcrParams::input_seq_len,
               "tokens with the last answer, which is not an input; even")
          .Add("multi_query", &MadIcrParams::multi_query,
               "score every repeated key; false: only the last, after a copy prefix")
          .Add("noise_vocab_size", &MadIcrParams::noise_vocab_size,
               "how many ids of the vocabulary are noise")
          .Add("frac_noise", &MadIcrParams::frac_noise, "probability that a slot is noise");
  return fields;
}

void Validate(const MadIcrParams& params, const std::string& where) {
  const NamedValue vocab_size("vocab_size", params.vocab_size);
  const NamedValue input_seq_len("input_seq_len", params.input_seq_len);
  const NamedValue noise_vocab_size("noise_vocab_size", params.noise_vocab_size);
  const NamedValue frac_noise("frac_noise", params.frac_noise);
  const Rules rules("mad_icr", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({input_seq_len});
  rules.Must(params.noise_vocab_size >= 0, "noise_vocab_size must be >= 0", {noise_vocab_size});
  rules.Must(params.input_seq_len % 2 == 0, "input_seq_len must be even", {input_seq_len});
  rules.NoiseFraction(frac_noise, noise_vocab_size);
  const std::int64_t num_recall_tokens =
      params.vocab_size - (params.multi_query ? 0 : 1) - params.noise_vocab_size;
  rules.Must(num_recall_tokens >= 2, "need at least 1 key and 1 value",
             {vocab_size, noise_vocab_size, {"multi_query", std::int64_t{params.multi_query}}});
  rules.Must(params.input_seq_len >= 4, "input_seq_len must be >= 4", {input_seq_len});
}

std::unique_ptr<Task> MakeMadIcr(const MadIcrParams& params) {
  return std::make_unique<MadIcrTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "mad_icr",
      WithOptions<MadIcrParams>(
          {.summary =
               "in-context recall over repeated key-value pairs, with or without noise slots",
           .source = "Poli et al., MAD, ICML 2024 (arXiv 2403.17844)",
           .aliases = {"in-context-recall", "noisy-in-context-recall", "associative_recall"},
           .presentation_params = {},
           .presets = Presets(),
           .deviations = {"Q10: one slot is always a pair, so that a key exists",
                          "Q11: options without keys are rejected",
                          "Q12: multi-query inputs have input_seq_len - 1 tokens, as in MAD",
                          "Q25, Q26: samples and splits never repeat one another's streams",
                          "Q29: accuracy over the split and over batches are both reported"}},
          MadIcrFields(), Validate, MakeMadIcr));
}

}  // namespace mixerbench::tasks::mad_icr
