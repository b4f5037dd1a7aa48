// Fields and lines that the CSV forms share (RFC 4180 with LF). Numbers as in the JSON report
// (shares, not percent); absent values are empty.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/value.h"

namespace mixerbench::reports {

// Numbers are written bare: the rule against formulas is about text.
std::string Number(std::optional<double> value);
std::string Integer(std::optional<std::int64_t> value);
std::string Truth(std::optional<bool> value);

// The value under a name, a text as a field; empty when it is not there.
std::string Member(const Object& object, const std::string& name);

// Names of the columns of these axes: with "axis." before one that another column has.
std::vector<std::string> AxisColumns(const std::set<std::string>& axes,
                                     const std::vector<std::string>& taken);

std::string Line(const std::vector<std::string>& fields);

}  // namespace mixerbench::reports
