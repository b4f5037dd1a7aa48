// Numbers as people read them. `–` stands for a value that there is not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mixerbench::reports {

// A share in percent. 100 and 0 are exact; 0.99997 is ">99.99", 0.00002 is "0.002".
std::string Percent(std::optional<double> share, int decimals = 2);

// 0.9712, 0.9987 -> "97.12–99.87", rounded outward.
std::string PercentRange(double low, double high, int decimals = 2);

// What guessing scores, in percent: 0.0625 -> "6.25", 0.000244 -> "0.024".
std::string GuessPercent(double share);

// 48000 -> "48,000".
std::string Count(double number);

// Three significant digits and thousands: 0.4684 -> "0.468", 2156.3 -> "2,156".
std::string Significant(std::optional<double> number, int digits = 3);

// 7.27e7 -> "72.7 M".
std::string Si(std::optional<double> number);

// 20992 -> "20.5 KiB".
std::string Bytes(std::optional<double> bytes);

// A learning rate as suites write it: 0.000464 -> "4.64e-4".
std::string RateText(double rate);

// 0.0123 -> "+1.2 %"; a share.
std::string SignedPercent(double share, int decimals = 1);

// "2026-11-21T08:00:00Z" -> "2026-11-21 08:00 UTC"; anything else as it is.
std::string TimeText(const std::string& iso);

// "8k" -> 8 and "k": the number that a text begins with and what comes after it.
struct LeadingNumber {
  double value = 0;
  std::string_view rest;
};
std::optional<LeadingNumber> LeadingNumberOf(std::string_view text);

// The number that a whole text is.
std::optional<double> NumberOf(std::string_view text);

// "3 seeds", "1 seed".
std::string Plural(std::int64_t count, const std::string& noun);

}  // namespace mixerbench::reports
