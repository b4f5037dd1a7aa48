// JSON Schema (draft-07) of the documents this program writes, and validation against it.
// The files are in reports/result/schema/; the program carries copies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"

namespace mixerbench::reports {

std::string_view CellSchema();         // cell-1.schema.json
std::string_view DatasetSchema();      // dataset-1.schema.json
std::string_view ReportSchema();       // report-1.schema.json, which refers to the other
std::string_view LeaderboardSchema();  // leaderboard-1.schema.json
std::string_view ScoreSchema();        // score-1.schema.json

// report-1.schema.json with the other in it, so that it refers to nothing outside: for readers that
// have it alone.
std::string WholeReportSchema();

// What is wrong with a document, as "<JSON pointer>: <fault>", outermost first; empty when valid.
// Checksums, summaries and gaps are beyond a schema: CellFromValue, ParseSweep and ParseManifest
// check those.
std::vector<std::string> ValidateAgainst(std::string_view schema, const Value& document);
std::vector<std::string> ValidateCell(const Value& document);
std::vector<std::string> ValidateDataset(const Value& document);
std::vector<std::string> ValidateReport(const Value& document);
std::vector<std::string> ValidateLeaderboard(const Value& document);
std::vector<std::string> ValidateScore(const Value& document);

}  // namespace mixerbench::reports
