// SPDX-License-Identifier: Apache-2.0
#include "reports/items/items.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/atomic_file.h"
#include "io/line_file.h"
#include "reports/statistics/statistics.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

std::filesystem::path Folder() { return std::getenv("TEST_TMPDIR"); }

// Three samples of two scored positions, the second near and far by turns.
std::vector<Item> SixItems() {
  std::vector<Item> items;
  for (std::int64_t i = 0; i < 6; ++i) {
    items.push_back({.task = "mqar",
                     .segment = 1,
                     .length = 8,
                     .sample = i / 2,
                     .position = 3 + i % 2,
                     .expected = 5,
                     .predicted = i < 4 ? 5 : -1,
                     .slices = {}});
    if (i % 2 == 1) items.back().slices.emplace_back("gap", i == 3 ? "far" : "near");
  }
  return items;
}

KeptItems Write(const std::vector<Item>& items, const std::string& name = "items-1.jsonl") {
  io::LineWriter lines(Folder() / name);
  for (const Item& item : items) lines.Add(ItemLine(item));
  lines.Commit();
  return {.segment = 1,
          .file = name,
          .sha256 = "sha256:" + io::HashFile(Folder() / name),
          .num_bytes = 0,
          .num_items = static_cast<std::int64_t>(items.size())};
}

// `per_sample`: each is all right or all wrong.
AccuracyRow Row(const std::string& bucket, const std::vector<Score>& samples, double per_sample,
                double macro) {
  AccuracyRow row;
  row.slice = bucket.empty() ? "" : "gap";
  row.bucket = bucket;
  for (const Score& sample : samples) {
    row.num_scored += static_cast<std::int64_t>(sample.size);
    row.num_correct += static_cast<std::int64_t>(sample.value);
  }
  row.num_sequences = static_cast<std::int64_t>(samples.size());
  row.ci_items = ShareInterval(samples);
  row.accuracy_per_example = row.sequence_accuracy = per_sample;
  row.accuracy_macro = macro;
  if (bucket.empty()) row.accuracy_macro_batched = macro;
  return row;
}

// What scoring the six items gives, as the second segment of a cell.
CellResult Scored() {
  CellResult cell;
  // Class 5 is right 4 of 6 times, class -1 was only predicted.
  cell.accuracy = {Row("", {{1, 1}}, 1, 1), Row("", {{2, 2}, {2, 2}, {0, 2}}, 2.0 / 3, 4.0 / 6 / 2),
                   Row("near", {{1, 1}, {0, 1}}, 0.5, 0.5 / 2), Row("far", {{1, 1}}, 1, 1)};
  return cell;
}

TEST_CASE("items: a line has sorted keys and escaped texts") {
  Item item = SixItems()[1];
  item.slices = {{"gap", "a\"b"}};
  CHECK(ItemLine(item) ==
        R"({"correct":true,"expected":5,"length":8,"position":4,"predicted":5,"sample":0,)"
        R"("segment":1,"slices":{"gap":"a\"b"},"task":"mqar"})");
}

TEST_CASE("items: what they count is what the rows say, plain and compressed") {
  for (const std::string name : {"items-1.jsonl", "items-1.jsonl.zst"}) {
    const KeptItems kept = Write(SixItems(), name);
    CHECK(ItemFormFault(Folder() / name).empty());
    CHECK(ItemFaults(Folder(), Scored(), kept) == std::vector<std::string>());
  }
}

// The faults joined.
std::string Faults(const CellResult& cell, const KeptItems& kept) {
  std::string all;
  for (const std::string& fault : ItemFaults(Folder(), cell, kept)) all += fault + "\n";
  return all;
}

TEST_CASE("items: every difference from the rows is named") {
  std::vector<Item> items = SixItems();
  items[5].predicted = 5;
  CHECK_THAT(Faults(Scored(), Write(items)),
             Catch::Contains("num_correct is 4 in the row and 5 by item") &&
                 Catch::Contains("gap near: num_correct is 1 in the row and 2 by item") &&
                 Catch::Contains("ci_items of the row is not that of the items"));
  items = SixItems();
  items.pop_back();
  CHECK_THAT(Faults(Scored(), Write(items)), Catch::Contains("num_scored is 6 in the row and 5"));
  items = SixItems();
  items[0].slices.emplace_back("gap", "nearer");
  CHECK_THAT(Faults(Scored(), Write(items)), Catch::Contains("has other slices"));

  CellResult narrower = Scored();
  narrower.accuracy[1].ci_items->low += 0.01;
  CHECK_THAT(Faults(narrower, Write(SixItems())), Catch::Contains("ci_items of the row"));

  for (const auto& [name, member] : std::map<std::string, std::optional<double> AccuracyRow::*>{
           {"accuracy_macro", &AccuracyRow::accuracy_macro},
           {"accuracy_macro_batched", &AccuracyRow::accuracy_macro_batched},
           {"accuracy_per_example", &AccuracyRow::accuracy_per_example},
           {"sequence_accuracy", &AccuracyRow::sequence_accuracy}}) {
    CellResult other = Scored();
    other.accuracy[1].*member = 0.75;
    CHECK_THAT(Faults(other, Write(SixItems())),
               Catch::Contains(": " + name + " is 0.75 in the row and 0."));
    other.accuracy[1].*member = std::nullopt;
    CHECK_THAT(Faults(other, Write(SixItems())), Catch::Contains(name + " is null in the row"));
  }

  KeptItems kept = Write(SixItems());
  kept.num_items = 7;
  CHECK_THAT(Faults(Scored(), kept), Catch::Contains("num_items is another"));
  kept = Write(SixItems());
  kept.segment = 0;
  CHECK_THAT(Faults(Scored(), kept), Catch::Contains("holds items of another segment"));
  kept = Write(SixItems());
  io::WriteFileAtomically(Folder() / kept.file, "");
  CHECK_THAT(Faults(Scored(), kept), Catch::Contains("is not the file that the result names"));
}

TEST_CASE("items: a line of the wrong form is named") {
  const auto fault = [](const std::string& text) {
    io::WriteFileAtomically(Folder() / "items-0.jsonl", text);
    return ItemFormFault(Folder() / "items-0.jsonl");
  };
  const std::string line = ItemLine(SixItems()[0]);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = line;
    text.replace(text.find(from), from.size(), to);
    return fault(text + "\n");
  };
  CHECK(fault(line + "\n").empty());
  CHECK_THAT(fault(line + "\n" + line + "\n"), Catch::Contains("line 2: items are in order"));
  CHECK_THAT(changed("\"correct\":true", "\"correct\":false"), Catch::Contains("line 1: /correct"));
  CHECK_THAT(changed("\"position\":3", "\"position\":8"), Catch::Contains("/position"));
  CHECK_THAT(changed("\"sample\":0", "\"sample\":-1"), Catch::Contains("below 0"));
  CHECK_THAT(changed("\"slices\":{}", "\"slices\":[]"), Catch::Contains("/slices"));
  CHECK_THAT(changed(",\"task\":\"mqar\"", ""), Catch::Contains("/task: missing"));
  CHECK_THAT(fault("{\n"), Catch::Contains("line 1: "));
}

}  // namespace
}  // namespace mixerbench::reports
