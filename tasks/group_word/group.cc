// SPDX-License-Identifier: Apache-2.0
#include "tasks/group_word/group.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "tasks/rules.h"

namespace mixerbench::tasks::group_word {
namespace {

struct FactorName {
  char kind;
  std::int64_t n;
};

std::optional<FactorName> ParseFactor(std::string_view text) {
  if (text.size() < 2 || text[1] == '0' ||
      std::string_view("SAZ").find(text[0]) == std::string_view::npos) {
    return std::nullopt;
  }
  FactorName factor{text[0], 0};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 1, end, factor.n);
  if (error != std::errc{} || stop != end || factor.n < 1) return std::nullopt;
  return factor;
}

// Empty when the name is not that of a group.
std::vector<FactorName> ParseFactors(std::string_view name) {
  std::vector<FactorName> factors;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('x', begin), name.size());
    const auto factor = ParseFactor(name.substr(begin, end - begin));
    if (!factor) return {};
    factors.push_back(*factor);
    begin = end + 1;
  }
  return factors;
}

using Images = std::vector<std::uint32_t>;

std::uint32_t Pack(const Images& images) {
  std::uint32_t word = 0;
  for (std::size_t point = 0; point < images.size(); ++point) {
    word |= images[point] << (kBitsPerPoint * point);
  }
  return word;
}

bool IsEven(const Images& images) {
  std::size_t num_inversions = 0;
  for (std::size_t i = 0; i < images.size(); ++i) {
    for (std::size_t j = i + 1; j < images.size(); ++j) num_inversions += images[i] > images[j];
  }
  return num_inversions % 2 == 0;
}

// Appends the tables of a permutation group. The lexicographic rank is the sum over points of
// (smaller images still to come) * (points still to come)!, so the images of 0..3 fix the first
// part of the sum and the order of the other images the rest.
void AppendPermutations(Factor& factor, std::vector<std::uint32_t>& tables) {
  factor.first_word = static_cast<std::uint32_t>(tables.size());
  const std::uint32_t n = factor.num_points;
  const std::uint32_t num_low = std::min(n, kLowPoints);
  std::uint32_t num_high_orders = 1;  // orders of the images of 4..n-1
  for (std::uint32_t i = 2; i + num_low <= n; ++i) num_high_orders *= i;

  std::vector<std::uint32_t> ranks(kLowWords + kHighWords);
  Images images(n);
  std::iota(images.begin(), images.end(), 0u);
  std::uint32_t rank = 0;
  do {
    if (!factor.is_alternating || IsEven(images)) tables.push_back(Pack(images));
    const std::uint32_t word = Pack(images);
    ranks[word % kLowWords] = rank - rank % num_high_orders;
    ranks[kLowWords + word / kLowWords] = rank % num_high_orders;
    ++rank;
  } while (std::next_permutation(images.begin(), images.end()));
  factor.order = static_cast<std::uint32_t>(tables.size()) - factor.first_word;
  tables.insert(tables.end(), ranks.begin(), ranks.end());
}

}  // namespace

GroupTables ParseGroup(std::string_view name, const std::string& where) {
  const NamedValue group_name("group", name);
  const Rules rules("group_word", where);
  const std::vector<FactorName> names = ParseFactors(name);
  rules.Must(!names.empty(), "group must be one of S<n>, A<n>, Z<n>, products with x",
             {group_name});
  rules.Must(names.size() <= kMaxFactors, "a product has at most 3 factors", {group_name});
  double order = 1;
  for (const FactorName& factor : names) {
    rules.Must(factor.kind == 'Z' || factor.n <= kMaxPoints, "n must be <= 7", {group_name});
    if (factor.kind == 'Z') {
      order *= static_cast<double>(factor.n);
    } else {
      for (std::int64_t i = 2; i <= factor.n; ++i) order *= static_cast<double>(i);
      if (factor.kind == 'A' && factor.n >= 2) order /= 2;
    }
  }
  rules.Must(order >= 2 && order <= 1 << 24, "the number of elements must be in [2, 16777216]",
             {group_name, {"elements", order}});

  GroupTables result;
  for (const FactorName& factor_name : names) {
    Factor& factor = result.group.factors[result.group.num_factors++];
    if (factor_name.kind == 'Z') {
      factor.order = static_cast<std::uint32_t>(factor_name.n);
    } else {
      factor.num_points = static_cast<std::uint32_t>(factor_name.n);
      factor.is_alternating = factor_name.kind == 'A';
      AppendPermutations(factor, result.tables);
    }
  }
  return result;
}

}  // namespace mixerbench::tasks::group_word
