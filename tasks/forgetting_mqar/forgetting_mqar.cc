// SPDX-License-Identifier: Apache-2.0
#include "tasks/forgetting_mqar/forgetting_mqar.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "tasks/canon.h"
#include "tasks/power_law.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::forgetting_mqar {
namespace {

ForgettingMqarSampler MakeSampler(const ForgettingMqarParams& params) {
  return {.vocab_size = static_cast<std::uint32_t>(params.vocab_size),
          .seq_len = static_cast<std::uint32_t>(params.input_seq_len),
          .num_kv_pairs = static_cast<std::uint32_t>(params.num_kv_pairs),
          .num_updates = static_cast<std::uint32_t>(params.num_updates),
          .noise = params.noise};
}

class ForgettingMqarTask final : public SampledTask<ForgettingMqarSampler> {
 public:
  ForgettingMqarTask(const ForgettingMqarParams& params, const ForgettingMqarSampler& sampler,
                     std::vector<std::uint32_t> tables)
      : SampledTask(sampler, std::move(tables)), params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = params_.vocab_size,
            .seq_len = params_.input_seq_len,
            .max_num_scored = params_.num_kv_pairs,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("forgetting_mqar")
        .Integer("L", params_.input_seq_len)
        .Integer("kv", params_.num_kv_pairs)
        .Real("power_a", params_.power_a)
        .Integer("updates", params_.num_updates)
        .Integer("vocab", params_.vocab_size)
        .Text();
  }

  // Reads the pairs and their updates at the start, whose number the options give: the last value
  // of a key counts. Filler is not looked at, it may repeat a key.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    std::unordered_map<std::int32_t, std::int32_t> value_of;
    for (std::size_t t = 0; t < sampler().context_len(); t += 2) {
      value_of[inputs[t]] = inputs[t + 1];
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto found = value_of.find(inputs[static_cast<std::size_t>(positions[i])]);
      answers[i] = found == value_of.end() ? kIgnore : found->second;
    }
  }

  std::vector<Baseline> baselines() const override {
    const auto num_pairs = static_cast<double>(params_.num_kv_pairs);
    return {{"uniform over values", 1.0 / static_cast<double>(sampler().num_values())},
            {"some latest value of the context", 1.0 / num_pairs},
            {"updates ignored",
             static_cast<double>(params_.num_kv_pairs - params_.num_updates) / num_pairs}};
  }

  std::vector<SliceKey> slice_keys() const override {
    return {{"updated", {"no", "yes"}},
            CountSlice("gap"),
            CountSlice("pair_index"),
            CountSlice("num_queries_between")};
  }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    struct Pair {
      std::int64_t index = 0;
      bool is_updated = false;
    };
    std::unordered_map<std::int32_t, Pair> pair_of;  // by key
    for (std::int64_t j = 0; j < params_.num_kv_pairs; ++j) {
      pair_of[inputs[static_cast<std::size_t>(2 * j)]].index = j;
    }
    for (auto t = static_cast<std::size_t>(2 * params_.num_kv_pairs); t < sampler().context_len();
         t += 2) {
      pair_of.at(inputs[t]).is_updated = true;
    }
    std::size_t num_queries = 0;
    for (std::size_t t = sampler().context_len(); t < inputs.size(); ++t) {
      if (labels[t] == kIgnore) continue;
      const Pair& pair = pair_of.at(inputs[t]);
      const std::size_t row = 4 * num_queries;
      buckets[row] = pair.is_updated ? 1 : 0;
      buckets[row + 1] = CountBucket(static_cast<std::int64_t>(t - sampler().context_len()) / 2);
      buckets[row + 2] = CountBucket(pair.index);
      buckets[row + 3] = CountBucket(static_cast<std::int64_t>(num_queries));
      ++num_queries;
    }
  }

 private:
  ForgettingMqarParams params_;
};

Segment PointSegment(std::int64_t input_seq_len, std::int64_t num_kv_pairs,
                     std::int64_t num_samples) {
  return {
      ForgettingMqarFields().Write({.input_seq_len = input_seq_len, .num_kv_pairs = num_kv_pairs}),
      num_samples};
}

std::vector<Preset> Presets() {
  return {ZoologyMixture("fmqar/zoo", "Zoology 2026, forgetting MQAR", PointSegment)};
}

}  // namespace

const Fields<ForgettingMqarParams>& ForgettingMqarFields() {
  using Params = ForgettingMqarParams;
  static const auto fields =
      Fields<Params>()
          .Add("vocab_size", &Params::vocab_size,
               "0 is filler, the lower half keys, the upper half values")
          .Add("input_seq_len", &Params::input_seq_len, "tokens of one sample; even")
          .Add("num_kv_pairs", &Params::num_kv_pairs, "keys with a value, and queries")
          .Add("num_updates", &Params::num_updates, "keys that get a new value after the pairs")
          .Add("power_a", &Params::power_a,
               "exponent of the gaps between pairs and queries: 1 uniform, smaller nearer")
          .Add("noise", &Params::noise,
               "filler between queries: 0, any token, or any token but this sample's keys");
  return fields;
}

void Validate(const ForgettingMqarParams& params, const std::string& where) {
  const NamedValue vocab_size("vocab_size", params.vocab_size);
  const NamedValue input_seq_len("input_seq_len", params.input_seq_len);
  const NamedValue num_kv_pairs("num_kv_pairs", params.num_kv_pairs);
  const NamedValue num_updates("num_updates", params.num_updates);
  const Rules rules("forgetting_mqar", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({input_seq_len});
  rules.Must(params.num_kv_pairs >= 1, "num_kv_pairs must be >= 1", {num_kv_pairs});
  rules.Must(params.input_seq_len % 2 == 0, "input_seq_len must be even", {input_seq_len});
  // 2 * kv + updates <= L / 2 without a sum that could overflow.
  const bool is_room = params.num_kv_pairs <= params.input_seq_len / 4 &&
                       params.num_updates <= params.input_seq_len / 2 - 2 * params.num_kv_pairs;
  rules.Must(is_room, "need 2*(num_kv_pairs+num_updates) + 2*num_kv_pairs <= input_seq_len",
             {num_kv_pairs, num_updates, input_seq_len});
  rules.Must(params.num_kv_pairs <= params.vocab_size / 2 - 1,
             "num_kv_pairs must be <= vocab_size/2 - 1", {num_kv_pairs, vocab_size});
  rules.Must(params.power_a > 0, "power_a must be > 0", {{"power_a", params.power_a}});
  rules.Must(params.num_updates >= 0 && params.num_updates <= params.num_kv_pairs,
             "num_updates must be in [0, num_kv_pairs]", {num_updates, num_kv_pairs});
}

std::unique_ptr<Task> MakeForgettingMqar(const ForgettingMqarParams& params) {
  const ForgettingMqarSampler sampler = MakeSampler(params);
  std::vector<std::uint32_t> tables =
      WeightSums(PowerLawWeights(sampler.num_slots(), params.power_a));
  return std::make_unique<ForgettingMqarTask>(params, sampler, std::move(tables));
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "forgetting_mqar",
      WithOptions<ForgettingMqarParams>(
          {.summary =
               "multi-query recall in which some keys get a new value: the latest one counts",
           .source = "Zoology repository, 2026 variants (Arora et al., arXiv 2312.04927)",
           .aliases = {"forgetting-mqar"},
           .presentation_params = {"noise"},
           .presets = Presets(),
           .deviations = {"Q02: filler comes from its own stream, not from a global generator",
                          "Q03: unknown options are rejected, not ignored",
                          "Q04: noise=random_safe keeps stored keys out of the filler",
                          "Q06: samples are drawn directly, without vocabulary-sized tables",
                          "Q07: an update never restores the value that the key had"}},
          ForgettingMqarFields(), Validate, MakeForgettingMqar));
}

}  // namespace mixerbench::tasks::forgetting_mqar
