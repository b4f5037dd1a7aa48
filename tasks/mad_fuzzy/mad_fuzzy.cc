// SPDX-License-Identifier: Apache-2.0
#include "tasks/mad_fuzzy/mad_fuzzy.h"

#include <algorithm>
#include <map>
#include <vector>

#include "tasks/canon.h"
#include "tasks/drawn_guesses.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::mad_fuzzy {
namespace {

using Tuple = std::vector<std::int32_t>;

// A key with its value, as found in a sample.
struct Pair {
  Tuple key;
  std::size_t value_begin = 0;
  std::size_t value_end = 0;
};

class MadFuzzyTask final : public SampledTask<MadFuzzySampler> {
 public:
  explicit MadFuzzyTask(const MadFuzzyParams& params)
      : SampledTask({.vocab_size = static_cast<std::uint32_t>(params.vocab_size),
                     .seq_len = static_cast<std::uint32_t>(params.input_seq_len),
                     .is_multi_query = params.multi_query,
                     .noise_vocab_size = static_cast<std::uint32_t>(params.noise_vocab_size),
                     .noise_threshold = BernoulliThreshold(params.frac_noise),
                     .max_key_len = static_cast<std::uint32_t>(params.k_motif_size),
                     .max_value_len = static_cast<std::uint32_t>(params.v_motif_size),
                     .key_length = params.key_length}),
        params_(params) {}

  TaskShape shape() const override {
    // Of a scored pair's tokens at most v_motif_size of min_key_len + v_motif_size are scored.
    const std::int64_t max_multi = (params_.input_seq_len + 1) * params_.v_motif_size /
                                   (sampler().min_key_len() + params_.v_motif_size);
    return {.vocab_size = params_.vocab_size,
            .seq_len = params_.input_seq_len,
            .max_num_scored = params_.multi_query ? max_multi : params_.v_motif_size,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("mad_fuzzy")
        .Integer("L", params_.input_seq_len)
        .Real("frac_noise", params_.frac_noise)
        .Integer("k_motif", params_.k_motif_size)
        .Flag("multi_query", params_.multi_query)
        .Integer("noise_vocab", params_.noise_vocab_size)
        .Integer("v_motif", params_.v_motif_size)
        .Integer("vocab", params_.vocab_size)
        .Text();
  }

  // The value that followed the key when it was first shown.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    const std::vector<Pair> pairs = ParsePairs(inputs);
    std::map<Tuple, const Pair*> first_of;  // by key
    std::vector<const Pair*> pair_at(inputs.size(), nullptr);
    for (const Pair& pair : pairs) {
      first_of.emplace(pair.key, &pair);
      for (std::size_t t = pair.value_begin; t < pair.value_end; ++t) pair_at[t - 1] = &pair;
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto t = static_cast<std::size_t>(positions[i]);
      answers[i] = kIgnore;
      if (pair_at[t] == nullptr) continue;
      const Pair& first = *first_of.at(pair_at[t]->key);
      const std::size_t source = first.value_begin + (t + 1 - pair_at[t]->value_begin);
      if (source < std::min(first.value_end, inputs.size())) answers[i] = inputs[source];
    }
  }

  std::vector<Baseline> baselines() const override {
    // A value does not repeat a token, so the one just read is not the next.
    return {{"uniform over values", 1.0 / static_cast<double>(sampler().num_values())},
            CommonestShown(
                *this, "the commonest value so far",
                [this](std::int32_t token) { return IsValue(token); }, /*but_last=*/true)};
  }

  std::vector<SliceKey> slice_keys() const override {
    return {OccurrenceSlice("occurrence"),
            CountSlice("pairs_since_previous"),
            {"final_probe", {"final"}},
            {"value_len", {"1", "2", "3", "4-7", "8+"}}};
  }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    struct Seen {
      std::int64_t count = 0;
      std::int64_t last = 0;
    };
    const std::vector<Pair> pairs = ParsePairs(inputs);
    std::map<Tuple, Seen> seen;
    std::size_t row = 0;
    for (std::int64_t i = 0; i < std::ssize(pairs); ++i) {
      const Pair& pair = pairs[static_cast<std::size_t>(i)];
      Seen& key = seen[pair.key];
      ++key.count;
      for (std::size_t t = pair.value_begin; t < pair.value_end; ++t) {
        if (labels[t - 1] == kIgnore) continue;
        buckets[row] = OccurrenceBucket(key.count);
        buckets[row + 1] = CountBucket(i - key.last);
        buckets[row + 2] = i + 1 == std::ssize(pairs) ? 0 : -1;
        buckets[row + 3] = ValueLenBucket(pair.value_end - pair.value_begin);
        row += 4;
      }
      key.last = i;
    }
  }

 private:
  bool IsKey(std::int32_t token) const {
    return static_cast<std::uint32_t>(token) < sampler().num_keys();
  }
  bool IsValue(std::int32_t token) const {
    return !IsKey(token) && static_cast<std::uint32_t>(token) < sampler().num_recall_tokens();
  }

  // The pairs in order. The last one is the probe; the last token of its value, at inputs.size(),
  // is no input.
  std::vector<Pair> ParsePairs(std::span<const std::int32_t> inputs) const {
    std::vector<Pair> pairs;
    for (std::size_t t = 0; t < inputs.size();) {
      if (!IsKey(inputs[t])) {
        ++t;
        continue;
      }
      Pair pair;
      for (; t < inputs.size() && IsKey(inputs[t]); ++t) pair.key.push_back(inputs[t]);
      pair.value_begin = t;
      while (t < inputs.size() && IsValue(inputs[t])) ++t;
      pair.value_end = t == inputs.size() ? t + 1 : t;
      pairs.push_back(std::move(pair));
    }
    return pairs;
  }

  static std::int32_t ValueLenBucket(std::size_t len) {
    if (len <= 3) return static_cast<std::int32_t>(len) - 1;
    return len < 8 ? 3 : 4;
  }

  MadFuzzyParams params_;
};

// MAD trains on keys of any length and tests on the longest.
std::vector<Preset> Presets() {
  std::vector<Preset> presets = MadGrid("mad/fr", MadFuzzyFields().Write({}), 12800,
                                        "MAD fuzzy in-context recall; RESONA Tab 1")
                                    .Vary("vocab_size", {32, 64, 128})
                                    .Vary("input_seq_len", {256, 512, 1024})
                                    .VaryNumTrain()
                                    .TrainOn(LabelMode::kAllTokens)
                                    .presets();
  for (Preset& preset : presets) {
    Value test_params = preset.params;
    test_params.as_object()["key_length"] = std::string(NameOf(KeyLength::kLongest));
    preset.train = {{preset.params, preset.num_train}};
    preset.test = {{std::move(test_params), preset.num_test}};
  }
  return presets;
}

}  // namespace

const Fields<MadFuzzyParams>& MadFuzzyFields() {
  static const auto fields =
      Fields<MadFuzzyParams>()
          .Add("vocab_size", &MadFuzzyParams::vocab_size,
               "keys, values, noise tokens, the pad and (single query) the copy prefix")
          .Add("input_seq_len", &MadFuzzyParams::input_seq_len, "tokens of one sample; even")
          .Add("multi_query", &MadFuzzyParams::multi_query,
               "score every repeated key; false: only the last, after a copy prefix")
          .Add("noise_vocab_size", &MadFuzzyParams::noise_vocab_size,
               "how many ids of the vocabulary are noise")
          .Add("frac_noise", &MadFuzzyParams::frac_noise,
               "probability that noise stands instead of a pair")
          .Add("k_motif_size", &MadFuzzyParams::k_motif_size, "tokens of a key at most")
          .Add("v_motif_size", &MadFuzzyParams::v_motif_size, "tokens of a value at most")
          .Add("key_length", &MadFuzzyParams::key_length,
               "keys of 1 to k_motif_size tokens, or all of k_motif_size, as MAD tests");
  return fields;
}

void Validate(const MadFuzzyParams& params, const std::string& where) {
  const NamedValue vocab_size("vocab_size", params.vocab_size);
  const NamedValue input_seq_len("input_seq_len", params.input_seq_len);
  const NamedValue noise_vocab_size("noise_vocab_size", params.noise_vocab_size);
  const NamedValue frac_noise("frac_noise", params.frac_noise);
  const NamedValue multi_query("multi_query", std::int64_t{params.multi_query});
  const NamedValue k_motif_size("k_motif_size", params.k_motif_size);
  const NamedValue v_motif_size("v_motif_size", params.v_motif_size);
  const Rules rules("mad_fuzzy", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({input_seq_len});
  rules.Must(params.noise_vocab_size >= 0, "noise_vocab_size must be >= 0", {noise_vocab_size});
  rules.Must(params.input_seq_len % 2 == 0, "input_seq_len must be even", {input_seq_len});
  rules.NoiseFraction(frac_noise, noise_vocab_size);
  const std::int64_t num_recall_tokens =
      params.vocab_size - (params.multi_query ? 1 : 2) - params.noise_vocab_size;
  rules.Must(num_recall_tokens >= 2, "need at least 1 key and 1 value",
             {vocab_size, noise_vocab_size, multi_query});
  rules.Must(params.input_seq_len >= 4, "input_seq_len must be >= 4", {input_seq_len});
  const std::int64_t num_keys = num_recall_tokens / 2;
  rules.Must(params.k_motif_size <= num_keys, "k_motif_size must be <= number of keys",
             {k_motif_size, {"number of keys", num_keys}});
  rules.Must(params.v_motif_size <= num_recall_tokens - num_keys,
             "v_motif_size must be <= number of values",
             {v_motif_size, {"number of values", num_recall_tokens - num_keys}});
  const auto is_size = [](std::int64_t size) { return size >= 1 && size <= kMaxFew; };
  rules.Must(is_size(params.k_motif_size) && is_size(params.v_motif_size),
             "k_motif_size and v_motif_size must be in [1,16]", {k_motif_size, v_motif_size});
  rules.Must(params.input_seq_len - 3 * (params.k_motif_size + params.v_motif_size) >= 1,
             "input_seq_len too short: need input_seq_len - kvp_max - "
             "2*(k_motif_size+v_motif_size) >= 1 with kvp_max = k_motif_size+v_motif_size",
             {input_seq_len, k_motif_size, v_motif_size});
}

std::unique_ptr<Task> MakeMadFuzzy(const MadFuzzyParams& params) {
  return std::make_unique<MadFuzzyTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "mad_fuzzy",
      WithOptions<MadFuzzyParams>(
          {.summary = "in-context recall in which keys and values are tuples of adjacent tokens",
           .source = "Poli et al., MAD, ICML 2024 (arXiv 2403.17844)",
           .version = 2,
           .aliases = {"fuzzy-in-context-recall"},
           .presentation_params = {"key_length"},
           .presets = Presets(),
           .deviations = {"Q13: the probe's pair is always shown, so the last query has an answer",
                          "Q14: tuples are drawn directly, without lists of all of them",
                          "Q25, Q26: samples and splits never repeat one another's streams",
                          "Q29: accuracy over the split and over batches are both reported"}},
          MadFuzzyFields(), Validate, MakeMadFuzzy));
}

}  // namespace mixerbench::tasks::mad_fuzzy
