// SPDX-License-Identifier: Apache-2.0
#include "tasks/vt/vt_chains.h"

#include <algorithm>

namespace mixerbench::tasks::vt {
namespace {

// Redraws of one name or value lie so far apart.
constexpr std::uint32_t kStride = 64;

template <typename Draw>
std::string DrawNew(std::uint32_t index, const std::vector<std::string>& taken, const Draw& draw) {
  for (std::uint32_t e = index;; e += kStride) {
    const std::string text = draw(e);
    if (std::find(taken.begin(), taken.end(), text) == taken.end()) return text;
  }
}

}  // namespace

std::vector<std::string> Chain::Statements() const {
  std::vector<std::string> statements = {"VAR " + names[0] + " = " + value};
  for (std::size_t j = 1; j < names.size(); ++j) {
    statements.push_back("VAR " + names[j] + " = VAR " + names[j - 1]);
  }
  return statements;
}

std::vector<Chain> DrawChains(const SampleStream& sample, const ChainDraw& draw,
                              std::int64_t num_chains, std::int64_t num_hops) {
  std::vector<std::string> names, values;
  for (std::int64_t i = 0; i < num_chains * (num_hops + 1); ++i) {
    names.push_back(DrawNew(static_cast<std::uint32_t>(i), names, [&](std::uint32_t e) {
      std::string name;
      for (std::uint32_t c = 0; c < draw.letters; ++c) {
        name +=
            static_cast<char>('A' + Uniform(sample, draw.name_stream, draw.letters * e + c, 26));
      }
      return name;
    }));
  }
  std::vector<Chain> chains;
  for (std::int64_t chain = 0; chain < num_chains; ++chain) {
    values.push_back(DrawNew(static_cast<std::uint32_t>(chain), values, [&](std::uint32_t e) {
      return std::to_string(10000 + Uniform(sample, draw.value_stream, e, 90000));
    }));
    const auto first = names.begin() + chain * (num_hops + 1);
    chains.push_back({values.back(), {first, first + num_hops + 1}});
  }
  return chains;
}

std::vector<std::string> FindVariables(std::string_view text, std::string_view value) {
  constexpr std::string_view kVar = "VAR ", kEquals = " = ";
  std::vector<std::string> found;
  for (std::size_t at = text.find(kVar); at != std::string_view::npos;
       at = text.find(kVar, at + kVar.size())) {
    const std::size_t name_begin = at + kVar.size();
    const std::size_t name_end = text.find_first_of(" \n.", name_begin);
    if (name_end == std::string_view::npos || !text.substr(name_end).starts_with(kEquals)) continue;
    std::size_t source_begin = name_end + kEquals.size();
    const bool is_copy = text.substr(source_begin).starts_with(kVar);
    if (is_copy) source_begin += kVar.size();
    const std::size_t source_end = std::min(text.find_first_of(" \n.", source_begin), text.size());
    const std::string_view source = text.substr(source_begin, source_end - source_begin);
    const bool has_value =
        is_copy ? std::find(found.begin(), found.end(), source) != found.end() : source == value;
    if (has_value) found.emplace_back(text.substr(name_begin, name_end - name_begin));
  }
  return found;
}

}  // namespace mixerbench::tasks::vt
