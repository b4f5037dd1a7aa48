// One cell as JSON and back (`result.json`; docs/REPORT_SCHEMA.md describes every key).
//
// What depends on the clock stands only under the keys `time`, `throughput` and `elapsed_s`; two
// runs of one cell in strict mode agree in every other byte.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/value.h"
#include "reports/result/result.h"

namespace mixerbench::reports {

inline constexpr std::string_view kSchemaVersion = "1.12.0";

// Every field, with checksums. Numbers that are not finite become null.
Value CellToValue(const CellResult& cell);

// The inverse. Unknown members are ignored; `where` is the JSON pointer of `value`.
// Errors: Error(kBadInput) for another major schema version, a missing or mistyped member, or
// content that does not match its checksum.
CellResult CellFromValue(const Value& value, const std::string& where = "");

// The text of a result file, and its reading. `path` is used in messages only.
std::string DumpCell(const CellResult& cell);
CellResult ParseCell(std::string_view text, const std::string& path);

// Refuses a document whose `schema_version` has another major number, or whose `kind` differs.
void CheckDocument(const Value& document, std::string_view kind, const std::string& where);

// Where this cell reached its threshold and completed; nothing for a cell that trains nothing.
std::optional<bool> Solved(const CellResult& cell);

// How single values are written, in cells and in sweeps alike.
Value IntervalToValue(const std::optional<Interval>& interval);
Value SeedToValue(std::uint64_t seed);                    // a string above 2^53
Value NumberOrNull(const std::optional<double>& number);  // null: absent or not finite
Value TextOrNull(const std::string& text);                // null: empty
Value PhaseToValue(CellPhase phase);                      // null: none
Value GuessesToValue(const std::vector<Guess>& guesses);

}  // namespace mixerbench::reports
