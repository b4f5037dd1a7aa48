// Every scored position of a test segment as a line of JSON, on request (`run --log-items`): what
// the rows of a result are counted from. docs/REPORT_SCHEMA.md describes the keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/result/result.h"

namespace mixerbench::reports {

struct Item {
  std::string_view task;
  std::int64_t segment = 0;    // of the test split, from 0
  std::int64_t length = 0;     // tokens of the sample
  std::int64_t sample = 0;     // of the segment, from 0
  std::int64_t position = 0;   // in the sample, from 0
  std::int64_t expected = 0;   // token
  std::int64_t predicted = 0;  // token; -1, which is right nowhere, when logits were not finite
  // Slice key and bucket, of those that this position falls in.
  std::vector<std::pair<std::string_view, std::string_view>> slices;
};

// Without the end of the line.
std::string ItemLine(const Item& item);

// What is wrong with the form of a file of items, or with the order of its lines; the first fault,
// empty when there is none.
std::string ItemFormFault(const std::filesystem::path& file);

// The rows of a test segment: the whole one and its slices.
std::vector<const AccuracyRow*> RowsOf(const CellResult& cell, std::int64_t segment);

// Counts the items of one test segment of `cell` again, from `folder`/`kept.file`, and compares
// checksum, counts and intervals with the rows of the result; a line for what differs.
std::vector<std::string> ItemFaults(const std::filesystem::path& folder, const CellResult& cell,
                                    const KeptItems& kept);

}  // namespace mixerbench::reports
