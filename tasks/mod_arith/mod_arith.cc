// SPDX-License-Identifier: Apache-2.0
#include "tasks/mod_arith/mod_arith.h"

#include <numeric>
#include <vector>

#include "tasks/canon.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::mod_arith {
namespace {

// Products of two residues and a sum stay within 32 bits.
constexpr std::int64_t kMaxModulus = 4096;

struct AnswerRates {
  double drawn = 0;  // expected accuracy of labels drawn at their rate
  double zero = 0;   // of the digit 0
};

// After + or - a digit the value is uniform; after * it gathers factors of the modulus. It is
// uniform among residues with one greatest common divisor with the modulus, so the probabilities
// of these divisors say everything. Exact left to right; with * first, a term of one digit makes
// the value uniform, and only expressions without such a term, (2/3)^num_digits of them, are not.
AnswerRates RatesOfAnswers(const ModArithParams& params, std::int64_t num_digits) {
  constexpr std::int64_t kNumUntilStationary = 60;  // what came before counts 3^-60
  const std::int64_t modulus = params.modulus;
  const auto divisor_of = [modulus](std::int64_t residue) {
    return static_cast<std::size_t>(std::gcd(residue, modulus));
  };
  using Rates = std::vector<double>;  // [modulus + 1], by divisor
  Rates num_residues(static_cast<std::size_t>(modulus) + 1);
  for (std::int64_t residue = 0; residue < modulus; ++residue) ++num_residues[divisor_of(residue)];

  Rates rates = num_residues;  // of the value after some digits
  for (double& rate : rates) rate /= static_cast<double>(modulus);
  const Rates uniform = rates;
  Rates sum = rates;  // over the scored digits
  const std::int64_t num_operators = params.precedence ? 0 : num_digits - 1;
  for (std::int64_t i = 0; i < num_operators; ++i) {
    if (i < kNumUntilStationary) {
      Rates next = uniform;
      for (double& rate : next) rate *= 2.0 / 3;
      for (std::int64_t divisor = 1; divisor <= modulus; ++divisor) {
        const double rate = rates[static_cast<std::size_t>(divisor)];
        if (rate == 0) continue;
        for (std::int64_t digit = 0; digit < modulus; ++digit) {
          next[divisor_of(divisor * digit)] += rate / (3 * static_cast<double>(modulus));
        }
      }
      rates = next;
    }
    for (std::size_t d = 0; d < sum.size(); ++d) sum[d] += rates[d];
  }
  if (params.cumulative) {
    rates = sum;
    for (double& rate : rates) rate /= static_cast<double>(num_operators + 1);
  }
  AnswerRates result;
  for (std::size_t d = 0; d < rates.size(); ++d) {
    if (num_residues[d] != 0) result.drawn += rates[d] * rates[d] / num_residues[d];
  }
  result.zero = rates.back();
  return result;
}

class ModArithTask final : public SampledTask<ModArithSampler> {
 public:
  explicit ModArithTask(const ModArithParams& params)
      : SampledTask({.modulus = static_cast<std::uint32_t>(params.modulus),
                     .expression_len = static_cast<std::uint32_t>(params.expression_len),
                     .is_times_first = params.precedence,
                     .is_cumulative = params.cumulative}),
        params_(params) {}

  TaskShape shape() const override {
    constexpr std::int64_t kNumOtherTokens = 6;
    return {.vocab_size = params_.modulus + kNumOtherTokens,
            .seq_len = sampler().seq_len(),
            .max_num_scored = params_.cumulative ? sampler().num_digits() : 1,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("mod_arith")
        .Integer("L", params_.expression_len)
        .Flag("cumulative", params_.cumulative)
        .Integer("m", params_.modulus)
        .Flag("precedence", params_.precedence)
        .Text();
  }

  // Reads the expression as one does on paper: sums of products, or one operation after the other.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    std::vector<std::int64_t> values;  // after every digit
    std::int64_t sum = 0;
    std::int64_t product = 0;
    for (std::size_t t = 0; t < sampler().expression_len; t += 2) {
      const std::int64_t digit = inputs[t];
      const std::int64_t op = t == 0 ? kPlus : inputs[t - 1] - params_.modulus;
      if (op == kTimes) {
        product = product * digit % params_.modulus;
      } else {
        const std::int64_t term = op == kPlus ? digit : -digit;
        sum = params_.precedence ? sum + product : 0;
        product = params_.precedence ? term : product + term;
      }
      const std::int64_t remainder = (sum + product) % params_.modulus;
      values.push_back(remainder < 0 ? remainder + params_.modulus : remainder);
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const std::size_t digit = static_cast<std::size_t>(positions[i]) / 2;
      answers[i] = static_cast<std::int32_t>(digit < values.size() ? values[digit] : values.back());
    }
  }

  std::vector<Baseline> baselines() const override {
    const AnswerRates rates = RatesOfAnswers(params_, sampler().num_digits());
    return {{"the digit 0", rates.zero}, {"labels drawn at their rate", rates.drawn}};
  }

  std::vector<SliceKey> slice_keys() const override { return {CountSlice("num_operators")}; }

  void AssignSlices(std::span<const std::int32_t>, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    std::size_t row = 0;
    for (std::size_t t = 0; t < labels.size(); ++t) {
      if (labels[t] != kIgnore) buckets[row++] = CountBucket(static_cast<std::int64_t>(t) / 2);
    }
  }

 private:
  ModArithParams params_;
};

std::vector<Preset> Presets() {
  constexpr std::int64_t kNumTest = 1000;
  const auto params = [](std::int64_t expression_len) {
    return ModArithFields().Write({.expression_len = expression_len});
  };
  std::vector<std::int64_t> train_lengths;
  for (std::int64_t length = 3; length <= 39; length += 2) train_lengths.push_back(length);
  return {MixturePreset("modarith/m5", EachSegment(train_lengths, 0, params),
                        EachSegment({41, 63, 95, 127, 191, 255}, kNumTest, params),
                        "state tracking; lengths of Deletang et al. 2022")};
}

}  // namespace

const Fields<ModArithParams>& ModArithFields() {
  static const auto fields =
      Fields<ModArithParams>()
          .Add("modulus", &ModArithParams::modulus, "digits are 0..modulus-1")
          .Add("expression_len", &ModArithParams::expression_len,
               "digits and operators of one sample, odd; one more token, `=`, follows")
          .Add("precedence", &ModArithParams::precedence, "* before + and -; false: left to right")
          .Add("cumulative", &ModArithParams::cumulative,
               "ask for the value so far at every digit; false: at `=` alone");
  return fields;
}

void Validate(const ModArithParams& params, const std::string& where) {
  const NamedValue expression_len("expression_len", params.expression_len);
  const Rules rules("mod_arith", where);
  rules.Must(params.modulus >= 2 && params.modulus <= kMaxModulus, "modulus must be in [2, 4096]",
             {{"modulus", params.modulus}});
  rules.Must(params.expression_len >= 3 && params.expression_len < 1 << 24,
             "expression_len must be in [3, 16777215]", {expression_len});
  rules.Must(params.expression_len % 2 == 1, "expression_len must be odd", {expression_len});
}

std::unique_ptr<Task> MakeModArith(const ModArithParams& params) {
  return std::make_unique<ModArithTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "mod_arith",
      WithOptions<ModArithParams>(
          {.summary = "the value of a long expression of digits, + - and *, modulo a small number",
           .source = "own definition after Deletang et al. 2022 (arXiv 2207.02098)",
           .aliases = {"modular_arithmetic"},
           .presentation_params = {},
           .presets = Presets(),
           .deviations = {"not the samples of Deletang et al.: own definition",
                          "one length per setting; a mixture takes its lengths in turn instead of "
                          "drawing one for every batch"}},
          ModArithFields(), Validate, MakeModArith));
}

}  // namespace mixerbench::tasks::mod_arith
