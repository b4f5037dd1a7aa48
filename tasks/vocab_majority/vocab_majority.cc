// SPDX-License-Identifier: Apache-2.0
#include "tasks/vocab_majority/vocab_majority.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <numbers>
#include <numeric>
#include <vector>

#include "tasks/canon.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::vocab_majority {
namespace {

// Probability that each id is the answer. Id i wins with count c when smaller ids stay below c and
// larger ones do not exceed it. Counts are those of independent Poisson variables given that their
// sum is num_tokens, which is a coefficient of a product of generating functions: its mean over the
// unit circle, at more points than the sum spreads over.
std::vector<double> AnswerProbabilities(std::int64_t num_ids, std::int64_t num_tokens) {
  const auto total = static_cast<double>(num_tokens);
  const double mean = total / static_cast<double>(num_ids);
  const double spread = 9 * std::sqrt(mean) + 20;  // of one count
  const double min_count = std::max(0.0, std::floor(mean - spread));
  std::vector<double> rates;  // of the counts from min_count on
  for (double count = min_count; count <= std::min(total, mean + spread); ++count) {
    rates.push_back(std::exp(count * std::log(mean) - mean - std::lgamma(count + 1)));
  }
  const auto half_points = static_cast<std::int64_t>(5 * std::sqrt(total) + 20);
  std::vector<double> share(static_cast<std::size_t>(num_ids));
  std::vector<std::complex<double>> not_larger(share.size());  // of the ids above each
  for (std::int64_t point = 0; point <= half_points; ++point) {
    // Counts by how far they are from the mean, so that the sum is to be 0. The other half of the
    // circle is the conjugate of this one.
    const double angle =
        std::numbers::pi * static_cast<double>(point) / static_cast<double>(half_points);
    const double weight = point == 0 || point == half_points ? 1 : 2;
    const std::complex<double> step = std::polar(1.0, angle);
    std::complex<double> phase = std::polar(1.0, angle * (min_count - mean));
    std::complex<double> up_to = rates.front() * phase;
    for (std::size_t i = 1; i < rates.size(); ++i) {
      phase *= step;
      const std::complex<double> below = up_to;
      up_to += rates[i] * phase;
      std::complex<double> product = weight;
      for (std::size_t id = share.size(); id-- > 0; product *= up_to) not_larger[id] = product;
      product = rates[i] * phase;
      for (std::size_t id = 0; id < share.size(); ++id, product *= below) {
        share[id] += (product * not_larger[id]).real();
      }
    }
  }
  const double all = std::accumulate(share.begin(), share.end(), 0.0);
  for (double& id_share : share) id_share /= all;
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
