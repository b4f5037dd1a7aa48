// SPDX-License-Identifier: Apache-2.0
#include "tasks/circuits/circuits.h"

#include <algorithm>
#include <vector>

#include "tasks/canon.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::circuits {
namespace {

constexpr std::int64_t kVocabSize = 3;  // of every circuit, so that models have one size

// Share of ones among the answers to n = first .. last fair bits, where a tie, which happens with
// probability C(n, n/2) / 2^n for an even n, moves the share from 1/2 towards `tie_answer`.
double ShareOfMajorities(std::int64_t first, std::int64_t last, int tie_answer) {
  double sum = 0;
  double tie = 1;  // at the largest even number up to n
  for (std::int64_t n = 1; n <= last; ++n) {
    const bool is_even = n % 2 == 0;
    if (is_even) tie *= static_cast<double>(n - 1) / static_cast<double>(n);
    if (n >= first) sum += 0.5 + (is_even ? tie * (tie_answer - 0.5) : 0);
  }
  return sum / static_cast<double>(last - first + 1);
}

class CircuitsTask final : public SampledTask<CircuitsSampler> {
 public:
  explicit CircuitsTask(const CircuitsParams& params)
      : SampledTask({.circuit = params.circuit,
                     .input_seq_len = static_cast<std::uint32_t>(params.input_seq_len)}),
        params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = kVocabSize,
            .seq_len = sampler().seq_len(),
            .max_num_scored = sampler().is_cumulative() ? sampler().seq_len() : 1,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon(NameOf(params_.circuit)).Integer("L", params_.input_seq_len).Text();
  }

  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    std::vector<std::int64_t> ones_before = {0};  // [bits + 1]
    for (std::size_t t = 0; t < sampler().num_bits(); ++t) {
      ones_before.push_back(ones_before.back() + inputs[t]);
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const std::int64_t count = std::min<std::int64_t>(positions[i] + 1, sampler().num_bits());
      answers[i] = sampler().Answer(ones_before[static_cast<std::size_t>(count)], count);
    }
  }

  std::vector<Baseline> baselines() const override {
    const double ones = ShareOfOnes();
    Baseline frequent{"the more frequent label", std::max(ones, 1 - ones)};
    if (ones != 0.5) {  // ties are rarer among more bits; the bits of a parity change nothing
      frequent.accuracy_at = [answer = ones > 0.5 ? 1 : 0](std::int64_t, std::int32_t label) {
        return label == answer ? 1.0 : 0.0;
      };
    }
    return {frequent, {"labels drawn at their rate", ones * ones + (1 - ones) * (1 - ones)}};
  }

  std::vector<SliceKey> slice_keys() const override { return {CountSlice("position")}; }

  void AssignSlices(std::span<const std::int32_t>, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    std::size_t row = 0;
    for (std::size_t t = 0; t < labels.size(); ++t) {
      if (labels[t] != kIgnore) buckets[row++] = CountBucket(static_cast<std::int64_t>(t));
    }
  }

 private:
  // Share of scored labels that are 1.
  double ShareOfOnes() const {
    const std::int64_t num_bits = sampler().num_bits();
    switch (params_.circuit) {
      case Circuit::kParity:
      case Circuit::kCumParity:
        return 0.5;
      case Circuit::kMajority:
        return ShareOfMajorities(num_bits, num_bits, 0);
      case Circuit::kCumMajority:
        return ShareOfMajorities(1, num_bits, 1);
    }
    return 0;
  }

  CircuitsParams params_;
};

std::vector<Preset> Presets() {
  constexpr std::int64_t kNumTrain = 100000, kNumTest = 1000;
  const auto params = [](Circuit circuit, std::int64_t input_seq_len) {
    return CircuitsFields().Write({circuit, input_seq_len});
  };
  std::vector<Preset> presets;
  const auto add_grid = [&](const std::string& family, Circuit circuit,
                            const std::vector<std::int64_t>& lengths,
                            const std::string& reproduces) {
    for (const std::int64_t length : lengths) {
      presets.push_back({.name = family + "/input_seq_len-" + std::to_string(length),
                         .params = params(circuit, length),
                         .num_train = kNumTrain,
                         .num_test = kNumTest,
                         .seed = kZoologySeed,
                         .reproduces = reproduces});
    }
  };
  add_grid("parity/zoo", Circuit::kCumParity, {4, 8, 16, 32, 64, 128}, "Based rebuttal");
  add_grid("majority/zoo", Circuit::kCumMajority, {4, 16, 32, 64, 128}, "Based rebuttal");
  add_grid("parity/end", Circuit::kParity, {4, 8, 16, 32, 64, 128}, "Zoology circuits");
  add_grid("majority/end", Circuit::kMajority, {4, 8, 16, 32, 64, 128}, "Zoology circuits");

  for (const auto& [name, circuit] : {std::pair{"parity/extrap", Circuit::kCumParity},
                                      std::pair{"majority/extrap", Circuit::kCumMajority}}) {
    const auto of_length = [&params, circuit = circuit](std::int64_t input_seq_len) {
      return params(circuit, input_seq_len);
    };
    presets.push_back(MixturePreset(name, EachSegment({64}, kNumTrain, of_length),
                                    EachSegment({64, 128, 256, 512, 1024}, kNumTest, of_length),
                                    "longer inputs than trained on", kZoologySeed));
  }
  return presets;
}

}  // namespace

const Fields<CircuitsParams>& CircuitsFields() {
  static const auto fields =
      Fields<CircuitsParams>()
          .Add("circuit", &CircuitsParams::circuit,
               "parity or majority of all bits, or (cum_) of the bits so far at each of them")
          .Add("input_seq_len", &CircuitsParams::input_seq_len,
               "bits and end token; cum_majority: bits; cum_parity: bits and 1");
  return fields;
}

void Validate(const CircuitsParams& params, const std::string& where) {
  Rules("circuits", where).SequenceLength({{"input_seq_len", params.input_seq_len}});
}

std::unique_ptr<Task> MakeCircuits(const CircuitsParams& params) {
  return std::make_unique<CircuitsTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add("circuits",
               WithOptions<CircuitsParams>(
                   {.summary = "parity or majority of random bits, at the end or after every bit",
                    .source = "circuits of Zoology; Arora et al., Based (arXiv 2402.18668)",
                    .aliases = {"parity", "cum_parity", "cumulative_parity", "majority",
                                "cum_majority", "cumulative_majority"},
                    .presentation_params = {},
                    .presets = Presets(),
                    .deviations =
                        {"tie rules are kept as they are: a tie counts as 0 for majority, as 1 for "
                         "cum_majority"}},
                   CircuitsFields(), Validate, MakeCircuits));
}

}  // namespace mixerbench::tasks::circuits
