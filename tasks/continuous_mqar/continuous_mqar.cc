// SPDX-License-Identifier: Apache-2.0
#include "tasks/continuous_mqar/continuous_mqar.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "tasks/canon.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::continuous_mqar {
namespace {

// Streams 16, 17, ... order the passes; the order of data sets has 0x7000.
constexpr std::int64_t kMaxPasses = 0x6000;

ContinuousMqarSampler MakeSampler(const ContinuousMqarParams& params) {
  return {.num_embeddings = static_cast<std::uint32_t>(params.num_embeddings),
          .num_kv_pairs = static_cast<std::uint32_t>(params.num_kv_pairs),
          .num_passes = static_cast<std::uint32_t>(params.num_passes),
          .is_per_sequence = params.per_sequence_mapping};
}

// The pairs of all samples, for all splits and seeds; nothing when each sample has its own.
std::vector<std::uint32_t> MakeTables(const ContinuousMqarParams& params,
                                      const ContinuousMqarSampler& sampler) {
  if (params.per_sequence_mapping) return {};
  constexpr std::uint64_t kNoSplit = 0;
  const std::string canon = Canon("continuous_mqar.map")
                                .Integer("N", params.num_embeddings)
                                .Integer("kv", params.num_kv_pairs)
                                .Text();
  const SampleStream stream{
      DeriveKey(canon, static_cast<std::uint64_t>(params.map_seed), kNoSplit)};
  std::vector<std::uint32_t> tables(2 * std::size_t{sampler.num_kv_pairs});
  std::vector<std::uint32_t> scratch(static_cast<std::size_t>(sampler.pick_words()));
  sampler.PickPairs(OneLane{}, stream, tables.data(), tables.data() + sampler.num_kv_pairs,
                    scratch.data());
  return tables;
}

class ContinuousMqarTask final : public SampledTask<ContinuousMqarSampler> {
 public:
  ContinuousMqarTask(const ContinuousMqarParams& params, const ContinuousMqarSampler& sampler)
      : SampledTask(sampler, MakeTables(params, sampler)), params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = params_.num_embeddings + 1,
            .seq_len = sampler().seq_len(),
            .max_num_scored = params_.num_kv_pairs,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("continuous_mqar")
        .Integer("N", params_.num_embeddings)
        .Integer("kv", params_.num_kv_pairs)
        .Integer("passes", params_.num_passes)
        .Flag("per_sequence_mapping", params_.per_sequence_mapping)
        .Text();
  }

  // A pair with the key before the position, from the vectors shown.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    std::unordered_map<std::int32_t, std::int32_t> value_of;
    for (std::size_t t = 0; t < ContextLen(); t += 2) value_of[inputs[t]] = inputs[t + 1];
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto key = inputs[static_cast<std::size_t>(positions[i]) / 2 * 2];
      const auto found = value_of.find(key);
      answers[i] = found == value_of.end() ? kIgnore : found->second;
    }
  }

  std::vector<Baseline> baselines() const override {
    const Baseline uniform{"uniform over values",
                           1.0 / static_cast<double>(sampler().num_values())};
    const Baseline shown{"some value of the pairs shown",
                         1.0 / static_cast<double>(params_.num_kv_pairs)};
    // Pairs that never change leave only their values to guess from.
    if (params_.per_sequence_mapping) return {uniform, shown};
    return {shown};
  }

  std::vector<SliceKey> slice_keys() const override {
    return {CountSlice("query_index"), CountSlice("vectors_since_pair")};
  }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    std::unordered_map<std::int32_t, std::int64_t> last_shown;  // vector of a key
    for (std::size_t t = 0; t < ContextLen(); t += 2) {
      last_shown[inputs[t]] = static_cast<std::int64_t>(t) / 2;
    }
    std::size_t row = 0;
    for (std::size_t t = ContextLen(); t < inputs.size(); t += 2) {
      if (labels[t + 1] == kIgnore) continue;
      buckets[row] = CountBucket(static_cast<std::int64_t>(t - ContextLen()) / 2);
      buckets[row + 1] = CountBucket(static_cast<std::int64_t>(t) / 2 - last_shown.at(inputs[t]));
      row += 2;
    }
  }

 private:
  // Tokens before the queries.
  std::size_t ContextLen() const {
    return static_cast<std::size_t>(2 * params_.num_passes * params_.num_kv_pairs);
  }

  ContinuousMqarParams params_;
};

Segment PairsSegment(std::int64_t num_kv_pairs, std::int64_t num_samples) {
  return {ContinuousMqarFields().Write({.num_kv_pairs = num_kv_pairs}), num_samples};
}

std::vector<Preset> Presets() {
  std::vector<Segment> train = {PairsSegment(4, 100000)};
  for (const std::int64_t num_kv_pairs : {8, 16, 32, 64}) {
    train.push_back(PairsSegment(num_kv_pairs, 20000));
  }
  std::vector<Segment> test;
  for (const std::int64_t num_kv_pairs : {4, 8, 16, 32, 64, 128, 256}) {
    test.push_back(PairsSegment(num_kv_pairs, 1000));
  }
  return {MixturePreset("contmqar/zoo", std::move(train), std::move(test),
                        "Zoology 2026, continuous MQAR", kZoologySeed)};
}

}  // namespace

const Fields<ContinuousMqarParams>& ContinuousMqarFields() {
  using Params = ContinuousMqarParams;
  static const auto fields =
      Fields<Params>()
          .Add("num_embeddings", &Params::num_embeddings,
               "rows of the embedding table: the first half keys, the second half values")
          .Add("num_kv_pairs", &Params::num_kv_pairs, "key-value pairs, and queries")
          .Add("num_passes", &Params::num_passes,
               "times all pairs are shown, each time in another order")
          .Add("per_sequence_mapping", &Params::per_sequence_mapping,
               "every sample has pairs of its own; false: all samples have the same")
          .Add("map_seed", &Params::map_seed, "which pairs, unless every sample has its own");
  return fields;
}

void Validate(const ContinuousMqarParams& params, const std::string& where) {
  constexpr std::int64_t kMaxEmbeddings = (1 << 24) - 1;  // one more token is the zero vector
  const NamedValue num_embeddings("num_embeddings", params.num_embeddings);
  const NamedValue num_kv_pairs("num_kv_pairs", params.num_kv_pairs);
  const NamedValue num_passes("num_passes", params.num_passes);
  const Rules rules("continuous_mqar", where);
  rules.Must(params.num_embeddings >= 2 && params.num_embeddings <= kMaxEmbeddings,
             "num_embeddings must be in [2, 16777215]", {num_embeddings});
  rules.Must(params.num_kv_pairs >= 1, "num_kv_pairs must be >= 1", {num_kv_pairs});
  rules.Must(params.num_passes >= 1 && params.num_passes <= kMaxPasses,
             "num_passes must be in [1, 24576]", {num_passes});
  rules.Must(params.num_kv_pairs <= params.num_embeddings / 2,
             "num_kv_pairs must be <= num_embeddings/2", {num_kv_pairs, num_embeddings});
  const std::int64_t num_tokens = 2 * (params.num_passes + 1) * params.num_kv_pairs;
  rules.Must(num_tokens <= (1 << 24), "2*(num_passes+1)*num_kv_pairs must be in [2, 16777216]",
             {num_passes, num_kv_pairs});
  rules.Must(params.map_seed >= 0, "map_seed must be >= 0", {{"map_seed", params.map_seed}});
  rules.ActsOnly(!params.per_sequence_mapping, "per_sequence_mapping false",
                 {"map_seed", params.map_seed}, {"map_seed", ContinuousMqarParams().map_seed});
}

std::unique_ptr<Task> MakeContinuousMqar(const ContinuousMqarParams& params) {
  return std::make_unique<ContinuousMqarTask>(params, MakeSampler(params));
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "continuous_mqar",
      WithOptions<ContinuousMqarParams>(
          {.summary = "multi-query recall in which key and value share one input vector",
           .source = "Zoology repository, 2026 variants (Arora et al., arXiv 2312.04927)",
           .aliases = {"stacked_mqar"},
           .presentation_params = {"map_seed"},
           .presets = Presets(),
           .deviations = {"Q03: unknown options are rejected, not ignored",
                          "Q08: without per_sequence_mapping the pairs persist over all samples",
                          "inputs are rows of an embedding table, two for each vector"}},
          ContinuousMqarFields(), Validate, MakeContinuousMqar));
}

}  // namespace mixerbench::tasks::continuous_mqar
