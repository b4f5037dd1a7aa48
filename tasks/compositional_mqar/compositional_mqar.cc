// SPDX-License-Identifier: Apache-2.0
#include "tasks/compositional_mqar/compositional_mqar.h"

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/power_law.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::compositional_mqar {
namespace {

using CompoundKey = std::pair<std::int32_t, std::int32_t>;

// The square root of `number`, or 0 when that is no whole number. 0 <= number <= 2^24.
std::int64_t WholeRoot(std::int64_t number) {
  const auto root = static_cast<std::int64_t>(std::lround(std::sqrt(number)));
  return root * root == number ? root : 0;
}

class CompositionalMqarTask final : public SampledTask<CompositionalMqarSampler> {
 public:
  CompositionalMqarTask(const CompositionalMqarParams& params,
                        const CompositionalMqarSampler& sampler, std::vector<std::uint32_t> tables)
      : SampledTask(sampler, std::move(tables)), params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = params_.vocab_size,
            .seq_len = params_.input_seq_len,
            .max_num_scored = params_.num_kv_pairs,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("compositional_mqar")
        .Integer("L", params_.input_seq_len)
        .Integer("kv", params_.num_kv_pairs)
        .Real("power_a", params_.power_a)
        .Integer("vocab", params_.vocab_size)
        .Text();
  }

  // Reads the triples at the start, whose number the options give, and looks up both parts of the
  // key: the token at the position and the one before.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    std::map<CompoundKey, std::int32_t> value_of;
    for (std::size_t t = 0; t < sampler().context_len(); t += 3) {
      value_of[{inputs[t], inputs[t + 1]}] = inputs[t + 2];
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto t = static_cast<std::size_t>(positions[i]);
      Require(t >= 1, "a compound key takes two positions");
      const auto found = value_of.find({inputs[t - 1], inputs[t]});
      answers[i] = found == value_of.end() ? kIgnore : found->second;
    }
  }

  std::vector<Baseline> baselines() const override {
    return {{"uniform over values", 1.0 / static_cast<double>(sampler().num_values())},
            {"some value of the context", 1.0 / static_cast<double>(params_.num_kv_pairs)},
            {"some value of the first key", 1.0 / static_cast<double>(sampler().grid_size)}};
  }

  std::vector<SliceKey> slice_keys() const override {
    return {CountSlice("gap"), CountSlice("pair_index"), CountSlice("num_queries_between")};
  }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    std::map<CompoundKey, std::int64_t> index_of;  // of a key in the list of triples
    for (std::int64_t q = 0; q < params_.num_kv_pairs; ++q) {
      const auto t = static_cast<std::size_t>(3 * q);
      index_of[{inputs[t], inputs[t + 1]}] = q;
    }
    std::size_t num_queries = 0;
    for (std::size_t t = sampler().context_len() + 1; t < inputs.size(); ++t) {
      if (labels[t] == kIgnore) continue;
      const auto gap = static_cast<std::int64_t>(t - sampler().context_len()) / 3;
      const std::size_t row = 3 * num_queries;
      buckets[row] = CountBucket(gap);
      buckets[row + 1] = CountBucket(index_of.at({inputs[t - 1], inputs[t]}));
      buckets[row + 2] = CountBucket(static_cast<std::int64_t>(num_queries));
      ++num_queries;
    }
  }

 private:
  CompositionalMqarParams params_;
};

Segment PointSegment(std::int64_t input_seq_len, std::int64_t num_kv_pairs,
                     std::int64_t num_samples) {
  return {CompositionalMqarFields().Write(
              {.input_seq_len = input_seq_len, .num_kv_pairs = num_kv_pairs}),
          num_samples};
}

std::vector<Preset> Presets() {
  return {ZoologyMixture("cmqar/zoo", "Zoology 2026, compositional MQAR", PointSegment)};
}

}  // namespace

const Fields<CompositionalMqarParams>& CompositionalMqarFields() {
  using Params = CompositionalMqarParams;
  static const auto fields =
      Fields<Params>()
          .Add("vocab_size", &Params::vocab_size,
               "0 is filler; thirds: first keys, second keys, values")
          .Add("input_seq_len", &Params::input_seq_len, "tokens of one sample; even")
          .Add("num_kv_pairs", &Params::num_kv_pairs,
               "compound keys with a value, and queries; a square number")
          .Add("power_a", &Params::power_a,
               "exponent of the gaps between triples and queries: 1 uniform, smaller nearer")
          .Add("noise", &Params::noise,
               "filler between queries: 0, any token, or any token but this sample's keys");
  return fields;
}

void Validate(const CompositionalMqarParams& params, const std::string& where) {
  const NamedValue vocab_size("vocab_size", params.vocab_size);
  const NamedValue input_seq_len("input_seq_len", params.input_seq_len);
  const NamedValue num_kv_pairs("num_kv_pairs", params.num_kv_pairs);
  const Rules rules("compositional_mqar", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({input_seq_len});
  rules.Must(params.num_kv_pairs >= 1, "num_kv_pairs must be >= 1", {num_kv_pairs});
  rules.Must(params.input_seq_len % 2 == 0, "input_seq_len must be even", {input_seq_len});
  rules.Must(params.num_kv_pairs <= params.input_seq_len / 6,
             "need 6*num_kv_pairs <= input_seq_len", {num_kv_pairs, input_seq_len});
  rules.Must(WholeRoot(params.num_kv_pairs) != 0, "num_kv_pairs must be a perfect square",
             {num_kv_pairs});
  const std::int64_t third = params.vocab_size / 3;
  rules.Must(WholeRoot(params.num_kv_pairs) <= third - 1,
             "sqrt(num_kv_pairs) must be <= vocab_size/3 - 1", {num_kv_pairs, vocab_size});
  rules.Must(params.num_kv_pairs <= params.vocab_size - 2 * third,
             "num_kv_pairs must be <= vocab_size - 2*(vocab_size/3), the number of values",
             {num_kv_pairs, vocab_size});
  rules.Must(params.power_a > 0, "power_a must be > 0", {{"power_a", params.power_a}});
}

std::unique_ptr<Task> MakeCompositionalMqar(const CompositionalMqarParams& params) {
  const CompositionalMqarSampler sampler{
      .vocab_size = static_cast<std::uint32_t>(params.vocab_size),
      .seq_len = static_cast<std::uint32_t>(params.input_seq_len),
      .grid_size = static_cast<std::uint32_t>(WholeRoot(params.num_kv_pairs)),
      .noise = params.noise};
  std::vector<std::uint32_t> tables =
      WeightSums(PowerLawWeights(sampler.num_slots(), params.power_a));
  return std::make_unique<CompositionalMqarTask>(params, sampler, std::move(tables));
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "compositional_mqar",
      WithOptions<CompositionalMqarParams>(
          {.summary =
               "multi-query recall by compound keys: neither part alone determines the value",
           .source = "Zoology repository, 2026 variants (Arora et al., arXiv 2312.04927)",
           .aliases = {"compositional-mqar"},
           .presentation_params = {"noise"},
           .presets = Presets(),
           .deviations =
               {"Q02: filler comes from its own stream, not from a global generator",
                "Q03: unknown options are rejected, not ignored",
                "Q04: noise=random_safe keeps both parts of stored keys out of the filler",
                "Q06: samples are drawn directly, without vocabulary-sized tables"}},
          CompositionalMqarFields(), Validate, MakeCompositionalMqar));
}

}  // namespace mixerbench::tasks::compositional_mqar
