// SPDX-License-Identifier: Apache-2.0
#include "tasks/vocab_majority/vocab_majority.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "tasks/canon.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::vocab_majority {
namespace {

// Probability that each id is the answer, with the counts of the ids taken as independent Poisson
// variables (in truth they have a fixed sum, which matters less the more ids or tokens there are).
// Id i wins with count c when smaller ids stay below c and larger ones do not exceed it.
std::vector<double> AnswerProbabilities(std::int64_t num_ids, std::int64_t num_tokens) {
  const double mean = static_cast<double>(num_tokens) / static_cast<double>(num_ids);
  const double max_count =
      std::min(static_cast<double>(num_tokens), mean + 12 * std::sqrt(mean) + 30);
  std::vector<double> share(static_cast<std::size_t>(num_ids));
  double log_probability = -mean;  // of count 0
  double up_to = std::exp(-mean);  // probability of at most count - 1
  for (double count = 1; count <= max_count; ++count) {
    log_probability += std::log(mean / count);
    const double probability = std::exp(log_probability);
    const double below = up_to;
    up_to += probability;
    if (below == 0) continue;  // no id stays below the count: nobody wins with so few
    double wins = probability * std::pow(up_to, static_cast<double>(num_ids - 1));
    for (double& id_share : share) {
      id_share += wins;
      wins *= below / up_to;
    }
  }
  const double total = std::accumulate(share.begin(), share.end(), 0.0);
  for (double& id_share : share) id_share /= total;
  return share;
}

class VocabMajorityTask final : public SampledTask<VocabMajoritySampler> {
 public:
  explicit VocabMajorityTask(const VocabMajorityParams& params)
      : SampledTask({.vocab_size = static_cast<std::uint32_t>(params.vocab_size),
                     .input_seq_len = static_cast<std::uint32_t>(params.input_seq_len)}),
        params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = params_.vocab_size,
            .seq_len = params_.input_seq_len,
            .max_num_scored = 1,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("vocab_majority")
        .Integer("L", params_.input_seq_len)
        .Integer("vocab", params_.vocab_size)
        .Text();
  }

  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
             std::span<std::int32_t> answers) const override {
    std::map<std::int32_t, std::int64_t> count_of;
    for (const std::int32_t token : inputs.first(sampler().num_tokens())) ++count_of[token];
    const auto most_frequent =
        std::max_element(count_of.begin(), count_of.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    for (std::int32_t& answer : answers) answer = most_frequent->first;
  }

  std::vector<Baseline> baselines() const override {
    const std::vector<double> share =
        AnswerProbabilities(params_.vocab_size - 1, sampler().num_tokens());
    return {{"the smallest token", share.front()},
            {"labels drawn at their rate",
             std::inner_product(share.begin(), share.end(), share.begin(), 0.0)}};
  }

  void AssignSlices(std::span<const std::int32_t>, std::span<const std::int32_t>,
                    std::span<std::int32_t>) const override {}

 private:
  VocabMajorityParams params_;
};

std::vector<Preset> Presets() {
  constexpr std::int64_t kNumTrain = 100000, kNumTest = 1000;
  const auto params = [](std::int64_t input_seq_len) {
    return VocabMajorityFields().Write({.input_seq_len = input_seq_len});
  };
  std::vector<Preset> presets;
  for (const std::int64_t length : {16, 32, 64, 128}) {
    presets.push_back({.name = "vocab_majority/zoo/input_seq_len-" + std::to_string(length),
                       .params = params(length),
                       .num_train = kNumTrain,
                       .num_test = kNumTest,
                       .seed = kZoologySeed,
                       .reproduces = "Zoology circuits; vocabulary assumed"});
  }
  presets.push_back(MixturePreset("vocab_majority/extrap", EachSegment({64}, kNumTrain, params),
                                  EachSegment({64, 128, 256, 512, 1024}, kNumTest, params),
                                  "longer inputs than trained on", kZoologySeed));
  return presets;
}

}  // namespace

const Fields<VocabMajorityParams>& VocabMajorityFields() {
  static const auto fields = Fields<VocabMajorityParams>()
                                 .Add("vocab_size", &VocabMajorityParams::vocab_size,
                                      "0 is the end, the others are counted")
                                 .Add("input_seq_len", &VocabMajorityParams::input_seq_len,
                                      "tokens of one sample, the end included");
  return fields;
}

void Validate(const VocabMajorityParams& params, const std::string& where) {
  const Rules rules("vocab_majority", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({{"input_seq_len", params.input_seq_len}});
}

std::unique_ptr<Task> MakeVocabMajority(const VocabMajorityParams& params) {
  return std::make_unique<VocabMajorityTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "vocab_majority",
      WithOptions<VocabMajorityParams>(
          {.summary = "name the most frequent token of a random sequence",
           .source = "circuits of Zoology; Arora et al., Based (arXiv 2402.18668)",
           .aliases = {},
           .presentation_params = {},
           .presets = Presets(),
           .deviations = {"Q23: a tie is repaired at a token that is one of the tied ones"}},
          VocabMajorityFields(), Validate, MakeVocabMajority));
}

}  // namespace mixerbench::tasks::vocab_majority
