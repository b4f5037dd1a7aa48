// A mixer whose state changes in few rows at each token. Maths and sources: row_sparse.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/value.h"

namespace mixerbench::models {

// What is written to the rows that were chosen.
enum class RowWrites {
  kAuto,     // softmax for gla, whose keys are logits; as they are for the others
  kAsIs,     // the keys
  kSoftmax,  // the softmax of the keys over the scored positions
};

struct RowSparseConfig {
  Value inner = Object{{"name", "gla"}};  // a mixer, with its options
  std::int64_t num_rows = 0;              // that a token changes, of a head; 0: a quarter
  RowWrites writes = RowWrites::kAuto;
  bool by_magnitude = false;  // rows are chosen by |write|; of keys as they are
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::RowWrites> {
  using E = mixerbench::models::RowWrites;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kAuto, "auto"}, {E::kAsIs, "as_is"}, {E::kSoftmax, "softmax"}};
};
