// The sampler of modular arithmetic; see mod_arith.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/lane_scan.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks::mod_arith {

inline constexpr std::uint32_t kPlus = 0, kMinus = 1, kTimes = 2, kNumOperators = 3;

struct ModArithSampler {
  std::uint32_t modulus = 0;  // digits 0..modulus-1, then + - * = and two brackets
  std::uint32_t expression_len = 0;
  bool is_times_first = false;
  bool is_cumulative = false;

  MB_HOST_DEVICE std::uint32_t equals() const { return modulus + kNumOperators; }
  MB_HOST_DEVICE std::uint32_t num_digits() const { return (expression_len + 1) / 2; }
  MB_HOST_DEVICE std::int64_t seq_len() const { return std::int64_t{expression_len} + 1; }

  // What an operator and its digit do to a pair (sum, term) whose value is sum + term, modulo
  // `modulus`: sum += kToSum * term + kSum, term = kScale * term + kTerm. Left to right the whole
  // value is the term; with * first the term is the product at the end of the expression.
  using Step = ScanState<4>;
  enum : std::uint32_t { kToSum, kSum, kScale, kTerm };

  MB_HOST_DEVICE Step StepOf(std::uint32_t op, std::uint32_t digit) const {
    if (op == kTimes) return {{0, 0, digit, 0}};
    const std::uint32_t added = op == kPlus || digit == 0 ? digit : modulus - digit;
    return is_times_first ? Step{{1, 0, 0, added}} : Step{{0, 0, 1, added}};
  }

  // First a, then b.
  MB_HOST_DEVICE Step Then(const Step& a, const Step& b) const {
    const std::uint32_t* const first = a.words;
    const std::uint32_t* const then = b.words;
    return {{(first[kToSum] + then[kToSum] * first[kScale]) % modulus,
             (first[kSum] + then[kSum] + then[kToSum] * first[kTerm]) % modulus,
             then[kScale] * first[kScale] % modulus,
             (then[kScale] * first[kTerm] + then[kTerm]) % modulus}};
  }

  // The value after `step` on (0, 0).
  MB_HOST_DEVICE std::uint32_t ValueAfter(const Step& step) const {
    return (step.words[kSum] + step.words[kTerm]) % modulus;
  }

  MB_HOST_DEVICE std::int64_t scratch_words() const { return ScanScratchWords<4>(); }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kDigitStream = 1, kOperatorStream = 2;
    // Digits stand at even positions, operators at odd ones.
    lanes.ForEach((expression_len + 3) / 4, [&](std::int64_t i) {
      const auto block = static_cast<std::uint32_t>(i);
      const PhiloxBlock digits = Words(sample, kDigitStream, block);
      const PhiloxBlock operators = Words(sample, kOperatorStream, block);
      for (std::uint32_t lane = 0; lane < 4 && 4 * block + lane < expression_len; ++lane) {
        const std::uint32_t t = 4 * block + lane;
        inputs[t] = static_cast<std::int32_t>(
            t % 2 == 0 ? UniformFromWord(sample, kDigitStream, t, digits.words[lane], modulus)
                       : modulus + UniformFromWord(sample, kOperatorStream, t,
                                                   operators.words[lane], kNumOperators));
      }
    });
    lanes.Serial([&] { inputs[expression_len] = static_cast<std::int32_t>(equals()); });
    WriteBackgroundLabels(lanes, mode, seq_len(), inputs, labels);

    InclusiveScan(
        lanes, num_digits(), Step{{0, 0, 1, 0}},
        [&](std::int64_t i) {
          const std::uint32_t op =
              i == 0 ? kPlus : static_cast<std::uint32_t>(inputs[2 * i - 1]) - modulus;
          return StepOf(op, static_cast<std::uint32_t>(inputs[2 * i]));
        },
        [this](const Step& a, const Step& b) { return Then(a, b); }, scratch,
        [&](std::int64_t i, const Step& step) {
          const bool is_last = i + 1 == num_digits();
          const bool is_kept = is_cumulative && mode != LabelMode::kTargetOnly;
          if (!is_last && !is_kept) return;
          const std::int64_t position = is_last && !is_cumulative ? expression_len : 2 * i;
          labels[position] = static_cast<std::int32_t>(ValueAfter(step));
        });
  }
};

}  // namespace mixerbench::tasks::mod_arith
