// An intervention of an evaluation on what a trained model writes into its states.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "base/value.h"

namespace mixerbench::harness {

// The positions at which every layer replaces its write gate by the mean over the sequence
// (models::TapRecorder::override_write_gate): those that hold one of a range of tokens, or a share
// of all, drawn for each sample.
struct WriteGateReset {
  std::int64_t first_token = 0;
  std::int64_t last_token = -1;  // the range is empty: it is a share
  double share = 0;

  bool is_by_token() const { return last_token >= first_token; }
  // "tokens 4 to 9", "0.04 of all positions"
  std::string text() const;
};

const Fields<WriteGateReset>& WriteGateResetFields();

// {"first_token": 4, "last_token": 9} or {"share": 0.04}, `where` being its JSON pointer. Throws
// ConfigError.
WriteGateReset ParseWriteGateReset(const Value& value, const std::string& where);
Value WriteGateResetToValue(const WriteGateReset& reset);

}  // namespace mixerbench::harness
