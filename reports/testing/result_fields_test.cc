// The keys that writer and reader share, against the schema and the page.
// SPDX-License-Identifier: Apache-2.0
#include "reports/result/result_fields.h"

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/result/schema.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

struct BoundKey {
  std::string key;
  int since;
};

// An object of the schema, and what the program binds of it.
struct BoundObject {
  std::string pointer;
  std::vector<BoundKey> keys;
  std::set<std::string> derived = {};  // keys that result_json.cc makes
};

template <typename Fields>
std::vector<BoundKey> KeysOf(const Fields& fields) {
  std::vector<BoundKey> keys;
  for (const auto& field : fields) keys.push_back({std::string(field.key), field.since});
  return keys;
}

std::vector<BoundObject> BoundObjects() {
  const std::string rows = "/definitions/";
  return {
      {"",
       KeysOf(kDocumentFields),
       {"schema_version", "kind", "identity", "state", "model_facts", "time", "steps_to_threshold",
        "solved", "plans", "integrity"}},
      {"/properties/identity", KeysOf(kIdentityFields)},
      {"/properties/state", KeysOf(kStateFields)},
      {"/properties/model_facts", KeysOf(kModelFields), {"state_bytes"}},
      {"/properties/model_facts/properties/state_bytes/oneOf/1", KeysOf(kStateBytesFields)},
      {"/properties/time", KeysOf(kTimeFields), {"document_sha256"}},
      {"/properties/time/properties/phases", KeysOf(Bound<PhaseTimes>::kFields)},
      {"/properties/time/properties/weights", KeysOf(Bound<KeptWeights>::kFields)},
      {"/properties/time/properties/items/items", KeysOf(Bound<KeptItems>::kFields)},
      {rows + "accuracy_row", KeysOf(Bound<AccuracyRow>::kFields)},
      {rows + "accuracy_row/properties/guesses/items", KeysOf(Bound<Guess>::kFields)},
      {rows + "interval", KeysOf(Bound<Interval>::kFields)},
      {rows + "learning_point", KeysOf(Bound<LearningPoint>::kFields)},
      {rows + "throughput_row", KeysOf(Bound<ThroughputRow>::kFields)},
      {rows + "tap_row", KeysOf(Bound<TapRow>::kFields)},
      {rows + "parity", KeysOf(Bound<Parity>::kFields)},
      {rows + "plan_run", KeysOf(Bound<PhasePlan>::kFields)},
      {rows + "function_plan", KeysOf(Bound<FunctionPlan>::kFields)},
  };
}

const Value& At(const Value& document, const std::string& pointer) {
  const Value* value = &document;
  std::istringstream steps(pointer);
  std::string step;
  std::getline(steps, step, '/');  // what stands before the first one
  while (std::getline(steps, step, '/')) {
    value = value->is_array() ? &value->as_array().at(std::stoul(step)) : value->Find(step);
    REQUIRE(value != nullptr);
  }
  return *value;
}

TEST_CASE("result fields: the schema has the keys that are bound, and no others") {
  const Value schema = io::ParseJson(CellSchema());
  for (const BoundObject& object : BoundObjects()) {
    CAPTURE(object.pointer);
    std::set<std::string> bound = object.derived;
    for (const BoundKey& field : object.keys) {
      CAPTURE(field.key);
      CHECK(bound.insert(field.key).second);  // once
    }
    std::set<std::string> described;
    for (const auto& [key, property] : At(schema, object.pointer + "/properties").as_object()) {
      described.insert(key);
    }
    CHECK(bound == described);
  }
}

TEST_CASE("result fields: the schema requires what every version wrote, and only that") {
  const Value schema = io::ParseJson(CellSchema());
  for (const BoundObject& object : BoundObjects()) {
    std::set<std::string> required;
    for (const Value& key : At(schema, object.pointer + "/required").as_array()) {
      required.insert(key.as_string());
    }
    for (const BoundKey& field : object.keys) {
      CAPTURE(object.pointer, field.key);
      CHECK(required.contains(field.key) == (field.since == 0));
    }
  }
}

// The last step of the path that a row of the page is about: "ceiling" of "`….ceiling`".
bool IsAbout(const std::string& row, const std::string& key) {
  const std::string cell = row.substr(0, row.find(" | "));
  for (const char* end : {"`", "[]`"}) {
    for (const char* begin : {"`", "."}) {
      if (cell.find(begin + key + end) != cell.npos) return true;
    }
  }
  return false;
}

TEST_CASE("result fields: the page says since when a key is there") {
  const std::string page = io::ReadFile("docs/REPORT_SCHEMA.md");
  for (const BoundObject& object : BoundObjects()) {
    for (const BoundKey& field : object.keys) {
      CAPTURE(object.pointer, field.key, field.since);
      bool has_row = false;
      bool has_version = false;
      std::istringstream rows(page);
      for (std::string row; std::getline(rows, row);) {
        if (!row.starts_with("| ") || !IsAbout(row, field.key)) continue;
        has_row = true;
        has_version |= row.find("since 1." + std::to_string(field.since)) != row.npos;
      }
      // An interval's keys stand below the table.
      CHECK((has_row || object.pointer == "/definitions/interval"));
      CHECK((has_version || field.since == 0));
    }
  }
}

TEST_CASE("result fields: an object of an older version lacks keys and keeps their defaults") {
  AccuracyRow written;
  written.ceiling = 0.5;
  Value row = WriteFields(Bound<AccuracyRow>::kFields, written);
  AccuracyRow whole;
  ReadFields(Bound<AccuracyRow>::kFields, io::ObjectReader(row, "/row"), whole);
  CHECK(whole.ceiling == 0.5);
  row.as_object().erase("ceiling");
  AccuracyRow older;
  ReadFields(Bound<AccuracyRow>::kFields, io::ObjectReader(row, "/row"), older);
  CHECK_FALSE(older.ceiling.has_value());
  row.as_object().erase("nll");
  CHECK_THROWS_WITH(ReadFields(Bound<AccuracyRow>::kFields, io::ObjectReader(row, "/row"), older),
                    "/row/nll: missing");
}

TEST_CASE("result fields: a wrong item of a list is named by its place") {
  ThroughputRow written;
  written.samples_ms = {1, 2};
  Value row = WriteFields(Bound<ThroughputRow>::kFields, written);
  row.as_object()["samples"].as_array()[1] = "slow";
  ThroughputRow read;
  CHECK_THROWS_WITH(ReadFields(Bound<ThroughputRow>::kFields, io::ObjectReader(row, "/row"), read),
                    Catch::StartsWith("/row/samples/1: "));
}

}  // namespace
}  // namespace mixerbench::reports
