// SPDX-License-Identifier: Apache-2.0
#include "reports/items/items.h"

#include <cmath>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/line_file.h"
#include "io/object_reader.h"
#include "reports/statistics/class_recall.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::reports {
namespace {

// An item with texts of its own.
struct ReadItem {
  std::string task;
  std::int64_t segment = 0;
  std::int64_t length = 0;
  std::int64_t sample = 0;
  std::int64_t position = 0;
  std::int64_t expected = 0;
  std::int64_t predicted = 0;
  bool correct = false;
  std::map<std::string, std::string> slices;
};

ReadItem ParseItem(std::string_view line) {
  const Value value = io::ParseJson(line);
  const io::ObjectReader reader(value, "");
  ReadItem item{.task = reader.String("task"),
                .segment = reader.Int("segment"),
                .length = reader.Int("length"),
                .sample = reader.Int("sample"),
                .position = reader.Int("position"),
                .expected = reader.Int("expected"),
                .predicted = reader.Int("predicted"),
                .correct = reader.Bool("correct"),
                .slices = {}};
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw Error(ExitCode::kBadInput, what);
  };
  require(item.segment >= 0 && item.sample >= 0 && item.expected >= 0, "/: a number is below 0");
  require(item.predicted >= -1, "/predicted: is below -1");
  require(item.position >= 0 && item.position < item.length, "/position: is outside the sample");
  require(item.correct == (item.expected == item.predicted),
          "/correct: does not say whether `predicted` is `expected`");
  for (const auto& [key, bucket] : reader.Member("slices").as_object()) {
    item.slices[key] = bucket.as_string();
  }
  return item;
}

// Calls `each` for every item. Throws Error(kBadInput) naming the line.
template <typename Each>
void ReadItems(const std::filesystem::path& file, Each each) {
  std::tuple<std::int64_t, std::int64_t, std::int64_t> last(-1, -1, -1);
  io::ReadLines(file, [&](std::string_view line, std::int64_t number) {
    const auto fail = [&](const std::string& what) {
      throw Error(ExitCode::kBadInput, fmt::format("{}: line {}: {}", file.string(), number, what));
    };
    try {
      const ReadItem item = ParseItem(line);
      const std::tuple place(item.segment, item.sample, item.position);
      if (place <= last) fail("items are in order of segment, sample and position");
      last = place;
      each(item);
    } catch (const std::bad_variant_access&) {
      fail("/slices: expected an object of strings");
    } catch (const Error& error) {
      const std::string what = error.what();
      if (what.starts_with(file.string())) throw;
      fail(what);
    }
  });
}

// What a row counts.
struct Counts {
  std::int64_t last_sample = -1;
  std::vector<Score> samples;
  ClassRecall classes;
  BatchedClassRecall batches;

  void Add(const ReadItem& item) {
    if (item.sample != last_sample) {
      samples.push_back({.value = 0, .size = 0});
      batches.BeginSample();
    }
    last_sample = item.sample;
    samples.back().value += item.correct ? 1 : 0;
    samples.back().size += 1;
    classes.Add(item.expected, item.predicted);
    batches.Add(item.expected, item.predicted);
  }

  // The mean over samples of what `of_sample` says of one.
  double MeanOf(double (*of_sample)(const Score&)) const {
    double sum = 0;
    for (const Score& sample : samples) sum += of_sample(sample);
    return sum / static_cast<double>(samples.size());
  }
};

// What of a row is not what these items give.
std::vector<std::string> Differences(const AccuracyRow& row, const Counts& counts) {
  double correct = 0;
  double scored = 0;
  for (const Score& sample : counts.samples) {
    correct += sample.value;
    scored += sample.size;
  }
  std::vector<std::string> found;
  const auto compare = [&](const char* what, std::int64_t of_row, std::int64_t of_items) {
    if (of_row == of_items) return;
    found.push_back(fmt::format("{} is {} in the row and {} by item", what, of_row, of_items));
  };
  compare("num_sequences", row.num_sequences, static_cast<std::int64_t>(counts.samples.size()));
  compare("num_scored", row.num_scored, std::llround(scored));
  compare("num_correct", row.num_correct, std::llround(correct));
  const auto interval = ShareInterval(counts.samples);
  const bool agrees = interval && row.ci_items ? AlmostEqual(interval->low, row.ci_items->low) &&
                                                     AlmostEqual(interval->high, row.ci_items->high)
                                               : interval.has_value() == row.ci_items.has_value();
  if (!agrees) found.emplace_back("ci_items of the row is not that of the items");
  if (counts.samples.empty()) return found;
  const auto compare_share = [&](const char* what, std::optional<double> of_row, double of_items) {
    if (of_row && AlmostEqual(*of_row, of_items)) return;
    found.push_back(fmt::format("{} is {} in the row and {} by item", what,
                                of_row ? fmt::to_string(*of_row) : "null", of_items));
  };
  compare_share("accuracy_per_example", row.accuracy_per_example,
                counts.MeanOf([](const Score& sample) { return sample.value / sample.size; }));
  compare_share("sequence_accuracy", row.sequence_accuracy, counts.MeanOf([](const Score& sample) {
    return sample.value == sample.size ? 1.0 : 0.0;
  }));
  compare_share("accuracy_macro", row.accuracy_macro, counts.classes.Mean());
  if (row.slice.empty()) {
    compare_share("accuracy_macro_batched", row.accuracy_macro_batched, counts.batches.Mean());
  }
  return found;
}

}  // namespace

std::string ItemLine(const Item& item) {
  std::string slices;
  for (const auto& [key, bucket] : item.slices) {
    slices += fmt::format("{}{}:{}", slices.empty() ? "" : ",", io::DumpJson(Value(key)),
                          io::DumpJson(Value(bucket)));
  }
  return fmt::format(
      R"({{"correct":{},"expected":{},"length":{},"position":{},"predicted":{},"sample":{},)"
      R"("segment":{},"slices":{{{}}},"task":{}}})",
      item.expected == item.predicted, item.expected, item.length, item.position, item.predicted,
      item.sample, item.segment, slices, io::DumpJson(Value(item.task)));
}

std::string ItemFormFault(const std::filesystem::path& file) {
  try {
    ReadItems(file, [](const ReadItem&) {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<const AccuracyRow*> RowsOf(const CellResult& cell, std::int64_t segment) {
  std::vector<const AccuracyRow*> rows;
  std::int64_t at = -1;
  for (const AccuracyRow& row : cell.accuracy) {
    if (row.slice.empty()) ++at;
    if (at == segment) rows.push_back(&row);
  }
  return rows;
}

std::vector<std::string> ItemFaults(const std::filesystem::path& folder, const CellResult& cell,
                                    const KeptItems& kept) {
  const std::filesystem::path file = folder / kept.file;
  std::map<std::pair<std::string, std::string>, Counts> counts;  // by slice and bucket
  std::vector<std::string> faults;
  std::int64_t num_items = 0;
  try {
    if ("sha256:" + io::HashFile(file) != kept.sha256) {
      return {file.string() + ": is not the file that the result names"};
    }
    ReadItems(file, [&](const ReadItem& item) {
      ++num_items;
      if (item.segment != kept.segment) {
        throw Error(ExitCode::kBadInput, file.string() + ": holds items of another segment");
      }
      counts[{"", ""}].Add(item);
      for (const auto& slice : item.slices) counts[slice].Add(item);
    });
  } catch (const Error& error) {
    return {error.what()};
  }
  if (num_items != kept.num_items) faults.push_back(file.string() + ": num_items is another");
  const auto rows = RowsOf(cell, kept.segment);
  for (const AccuracyRow* row : rows) {
    for (const std::string& difference : Differences(*row, counts[{row->slice, row->bucket}])) {
      faults.push_back(fmt::format("{}{}: {}", file.string(),
                                   row->slice.empty() ? "" : ", " + row->slice + " " + row->bucket,
                                   difference));
    }
  }
  if (rows.size() != counts.size()) faults.push_back(file.string() + ": has other slices");
  return faults;
}

}  // namespace mixerbench::reports
