// SPDX-License-Identifier: Apache-2.0
#include "reports/view/numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <utility>

#include "reports/view/page.h"

namespace mixerbench::reports {
namespace {

// "1234567.8" -> "1,234,567.8"
std::string Grouped(std::string digits) {
  const std::size_t start = digits.starts_with('-') ? 1 : 0;
  std::size_t end = std::min(digits.find('.'), digits.size());
  while (end > start + 3) {
    end -= 3;
    digits.insert(end, ",");
  }
  return digits;
}

// An interval holds what it held: rounding moves its ends apart, but not for the last bit of a
// double.
constexpr double kLastBit = 1e-9;

}  // namespace

std::string Percent(std::optional<double> share, int decimals) {
  if (!share) return kNone;
  const double percent = 100 * *share;
  const std::string text = fmt::format("{:.{}f}", percent, decimals);
  if (*share < 1 && text == fmt::format("{:.{}f}", 100.0, decimals)) {
    return fmt::format(">{:.{}f}", 100 - std::pow(10.0, -decimals), decimals);
  }
  if (*share > 0 && std::stod(text) == 0) return fmt::format("{:.2g}", percent);
  return text;
}

std::string PercentRange(double low, double high, int decimals) {
  const double scale = std::pow(10.0, decimals);
  return fmt::format("{:.{}f}–{:.{}f}", std::floor(100 * scale * low + kLastBit) / scale, decimals,
                     std::ceil(100 * scale * high - kLastBit) / scale, decimals);
}

std::string GuessPercent(double share) {
  return share < 0.01 ? fmt::format("{:.2g}", 100 * share) : fmt::format("{:.4g}", 100 * share);
}

std::string Count(double number) { return Grouped(fmt::format("{:.0f}", number)); }

std::string Significant(std::optional<double> number, int digits) {
  if (!number || !std::isfinite(*number)) return kNone;
  if (*number == 0) return "0";
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(*number)) + kLastBit));
  return Grouped(fmt::format("{:.{}f}", *number, std::clamp(digits - 1 - magnitude, 0, 12)));
}

std::string Si(std::optional<double> number) {
  if (!number) return kNone;
  constexpr std::array<std::pair<double, const char*>, 3> kUnits = {
      {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  for (const auto& [scale, unit] : kUnits) {
    if (std::abs(*number) >= scale) return Significant(*number / scale) + unit;
  }
  return Significant(number);
}

std::string Bytes(std::optional<double> bytes) {
  if (!bytes) return kNone;
  constexpr std::array<std::pair<double, const char*>, 3> kUnits = {
      {{1024.0 * 1024 * 1024, " GiB"}, {1024.0 * 1024, " MiB"}, {1024.0, " KiB"}}};
  for (const auto& [scale, unit] : kUnits) {
    if (*bytes < scale) continue;
    const double value = *bytes / scale;
    const bool is_whole = std::abs(value - std::round(value)) < 5e-3;
    return (is_whole ? Grouped(fmt::format("{:.0f}", value)) : Significant(value)) + unit;
  }
  return fmt::format("{:.0f} B", *bytes);
}

std::string RateText(double rate) {
  if (rate == 0) return "0";  // of a weight decay
  std::string text = fmt::format("{:.2e}", rate);
  const std::size_t e = text.find('e');
  return fmt::format("{:g}e{}", std::stod(text.substr(0, e)), std::stoi(text.substr(e + 1)));
}

std::string SignedPercent(double share, int decimals) {
  const std::string digits = fmt::format("{:.{}f}", std::abs(100 * share), decimals);
  const bool is_zero = std::stod(digits) == 0;
  return (is_zero ? "" : share > 0 ? "+" : "−") + digits;
}

std::string TimeText(const std::string& iso) {
  if (iso.size() < 17 || iso[10] != 'T') return iso;
  return iso.substr(0, 10) + " " + iso.substr(11, 5) + " UTC";
}

std::optional<LeadingNumber> LeadingNumberOf(std::string_view text) {
  double value = 0;
  const char* const last = std::to_address(text.end());
  const auto [end, code] = std::from_chars(std::to_address(text.begin()), last, value);
  if (code != std::errc()) return std::nullopt;
  return LeadingNumber{value, std::string_view(end, static_cast<std::size_t>(last - end))};
}

std::optional<double> NumberOf(std::string_view text) {
  const auto number = LeadingNumberOf(text);
  return number && number->rest.empty() ? std::optional(number->value) : std::nullopt;
}

std::string Plural(std::int64_t count, const std::string& noun) {
  return Count(static_cast<double>(count)) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace mixerbench::reports
