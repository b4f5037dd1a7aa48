// String copying and n-gram lookup: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "tasks/str_copy/str_copy_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::str_copy {

struct StrCopyParams {
  Variant variant = Variant::kCopy;
  std::int64_t alphabet_size = 26;  // letters; four ids more are marks
  std::int64_t min_len = 20;        // letters of a string
  std::int64_t max_len = 50;
  std::int64_t context_len = 220;   // tokens of one sample
  std::int64_t n_gram = 3;          // letters that are looked up or doubled
  std::int64_t length_answer = -1;  // letters asked for after the n-gram; -1: to the end
  bool packed = true;               // examples up to the end of the context; false: one, then pads
};

// Names, types and help of the options.
const Fields<StrCopyParams>& StrCopyFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const StrCopyParams& params, const std::string& where);

std::unique_ptr<Task> MakeStrCopy(const StrCopyParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::str_copy

template <>
struct mixerbench::EnumNames<mixerbench::tasks::str_copy::Variant> {
  using Variant = tasks::str_copy::Variant;
  static constexpr std::pair<Variant, std::string_view> kNames[] = {
      {Variant::kCopy, "copy"},
      {Variant::kPrefixNgram, "prefix_ngram"},
      {Variant::kSuffixNgram, "suffix_ngram"},
      {Variant::kDuplicateNgram, "duplicate_ngram"}};
};
