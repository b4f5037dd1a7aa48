// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/write_gate_reset.h"

#include <sstream>

#include "base/error.h"

namespace mixerbench::harness {
const Fields<WriteGateReset>& WriteGateResetFields() {
  using Reset = WriteGateReset;
  static const auto fields =
      Fields<Reset>()
          .AddLater("first_token", &Reset::first_token, "of the tokens whose positions are meant")
          .AddLater("last_token", &Reset::last_token, "of them, itself included")
          .AddLater("share", &Reset::share, "of all positions, in (0,1], instead of tokens");
  return fields;
}

std::string WriteGateReset::text() const {
  std::ostringstream text;
  if (is_by_token()) {
    text << "tokens " << first_token << " to " << last_token;
  } else {
    text << share << " of all positions";
  }
  return text.str();
}

WriteGateReset ParseWriteGateReset(const Value& value, const std::string& where) {
  const WriteGateReset reset = WriteGateResetFields().Parse(value, where);
  const bool has_tokens =
      value.Find("first_token") != nullptr || value.Find("last_token") != nullptr;
  const bool has_share = value.Find("share") != nullptr;
  if (has_tokens == has_share) {
    throw ConfigError(where, R"(expected {"first_token": 4, "last_token": 9} or {"share": 0.04})");
  }
  if (has_tokens && !(reset.first_token >= 0 && reset.is_by_token())) {
    throw ConfigError(where, "expected 0 <= first_token <= last_token");
  }
  if (has_share && !(reset.share > 0 && reset.share <= 1)) {
    throw ConfigError(where + "/share", "must be above 0 and at most 1");
  }
  return reset;
}

Value WriteGateResetToValue(const WriteGateReset& reset) {
  return WriteGateResetFields().Write(reset);
}

}  // namespace mixerbench::harness
