// Mixers that may have more heads of values, states and gates than of queries and keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/fields.h"
#include "models/blocks/config_checks.h"

namespace mixerbench::models {

// `fields` and the options num_v_heads and expand_v.
template <typename Config>
Fields<Config> WithValueHeads(Fields<Config> fields) {
  fields
      .Add("num_v_heads", &Config::num_v_heads,
           "heads of values, states and gates, a multiple of num_heads; 0: num_heads")
      .Add("expand_v", &Config::expand_v, "value channels of a head per key channel");
  return fields;
}

// Throws ConfigError below `where` unless they are a multiple of num_heads.
template <typename Config>
std::int64_t NumValueHeads(const Config& config, const std::string& where) {
  CheckRange(config.num_v_heads, 0, 1 << 16, where, "num_v_heads");
  const std::int64_t num_v_heads = config.num_v_heads != 0 ? config.num_v_heads : config.num_heads;
  if (num_v_heads % config.num_heads == 0) return num_v_heads;
  throw ConfigError(where + "/num_v_heads", std::to_string(num_v_heads) +
                                                " is not a multiple of num_heads " +
                                                std::to_string(config.num_heads));
}

// Sets num_heads and head_v_dim of a layout that has head_k_dim. Throws ConfigError below `where`.
template <typename Config, typename Layout>
void SetValueHeads(const Config& config, const std::string& where, Layout& layout) {
  layout.num_heads = NumValueHeads(config, where);
  layout.head_v_dim = ExpandedHeadDim(config.expand_v, layout.head_k_dim, 1, where, "expand_v");
}

}  // namespace mixerbench::models
