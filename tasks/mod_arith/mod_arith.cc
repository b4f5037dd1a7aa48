// SPDX-License-Identifier: Apache-2.0
#include "tasks/mod_arith/mod_arith.h"

#include <algorithm>
#include <map>
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

// The law of a value by its Fourier coefficients F(t), the mean of exp(2 pi i t value / modulus).
// All of them are real here and depend on the greatest common divisor of t and the modulus alone,
// so one number for each divisor says everything; 0 has the probability sum F(t) / modulus and, by
// Parseval, labels drawn at their rate are right with sum F(t)^2 / modulus.
class FourierLaw {
 public:
  explicit FourierLaw(std::int64_t modulus) : modulus_(modulus) {
    for (std::int64_t t = 0; t < modulus; ++t) ++num_frequencies_[std::gcd(t, modulus)];
  }

  using Coefficients = std::map<std::int64_t, double>;  // by divisor

  // Of a uniform digit.
  Coefficients Uniform() const {
    return OfEach([&](std::int64_t divisor) { return divisor == modulus_ ? 1.0 : 0.0; });
  }
  // Of the value, which is 0, before there is a digit.
  Coefficients Zero() const {
    return OfEach([](std::int64_t) { return 1.0; });
  }
  // Of a value times a uniform digit.
  Coefficients TimesDigit(const Coefficients& value) const {
    return OfEach([&](std::int64_t divisor) {
      double sum = 0;
      for (std::int64_t digit = 0; digit < modulus_; ++digit) {
        sum += value.at(std::gcd(divisor * digit, modulus_));
      }
      return sum / static_cast<double>(modulus_);
    });
  }
  AnswerRates Rates(const Coefficients& value) const {
    AnswerRates rates;
    for (const auto& [divisor, count] : num_frequencies_) {
      const double f = value.at(divisor);
      rates.zero += static_cast<double>(count) * f / static_cast<double>(modulus_);
      rates.drawn += static_cast<double>(count) * f * f / static_cast<double>(modulus_);
    }
    return rates;
  }

  template <typename Make>
  Coefficients OfEach(const Make& make) const {
    Coefficients coefficients;
    for (const auto& [divisor, count] : num_frequencies_) coefficients[divisor] = make(divisor);
    return coefficients;
  }

 private:
  std::int64_t modulus_;
  std::map<std::int64_t, std::int64_t> num_frequencies_;  // by divisor
};

// The laws of the value after 1, 2, ... digits. Left to right the value is uniform after + or -;
// with * first it is a sum of independent products, whose coefficients multiply.
std::vector<FourierLaw::Coefficients> LawsOfValues(const FourierLaw& law, std::int64_t num_digits,
                                                   bool is_times_first) {
  const FourierLaw::Coefficients uniform = law.Uniform();
  std::vector<FourierLaw::Coefficients> values = {law.Zero()};
  std::vector<FourierLaw::Coefficients> products = {law.Zero(), uniform};  // of so many digits
  for (std::int64_t n = 1; n <= num_digits; ++n) {
    const auto digits = static_cast<std::size_t>(n);
    if (digits >= products.size()) products.push_back(law.TimesDigit(products.back()));
    if (!is_times_first) {
      const FourierLaw::Coefficients scaled = law.TimesDigit(values.back());
      values.push_back(n == 1 ? uniform : law.OfEach([&](std::int64_t divisor) {
        return uniform.at(divisor) * 2 / 3 + scaled.at(divisor) / 3;
      }));
      continue;
    }
    values.push_back(law.OfEach([&](std::int64_t divisor) {
      double sum = 0;
      double rate = 1;  // of a last term of so many digits or more
      for (std::size_t last = 1; last <= digits; ++last, rate /= 3) {
        const double begins = last == digits ? 1 : 2.0 / 3;
        sum += rate * begins * products[last].at(divisor) * values[digits - last].at(divisor);
      }
      return sum;
    }));
  }
  values.erase(values.begin());
  return values;
}

AnswerRates RatesOfAnswers(const ModArithParams& params, std::int64_t num_digits) {
  constexpr std::int64_t kUntilStationary = 60;  // what came before counts (2/3)^60 at most
  const FourierLaw law(params.modulus);
  const auto values = LawsOfValues(law, std::min(num_digits, kUntilStationary), params.precedence);
  if (!params.cumulative) return law.Rates(values.back());
  const auto num_stationary = static_cast<double>(num_digits - std::ssize(values));
  return law.Rates(law.OfEach([&](std::int64_t divisor) {
    double sum = num_stationary * values.back().at(divisor);
    for (const auto& value : values) sum += value.at(divisor);
    return sum / static_cast<double>(num_digits);
  }));
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
    return {
        {.name = "the digit 0",
         .accuracy = rates.zero,
         .accuracy_at = [](std::int64_t, std::int32_t label) { return label == 0 ? 1.0 : 0.0; }},
        {"labels drawn at their rate", rates.drawn}};
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
