// Lists of JSON made of other lists.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <range/v3/range/conversion.hpp>
#include <range/v3/view/transform.hpp>

#include "base/value.h"

namespace mixerbench {

// What `to_value`, a function or a member, makes of each element, in order.
template <typename Range, typename Function>
Array ArrayOf(const Range& range, Function to_value) {
  return range | ranges::views::transform(to_value) | ranges::to<Array>();
}

}  // namespace mixerbench
