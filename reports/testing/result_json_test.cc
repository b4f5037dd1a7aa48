// SPDX-License-Identifier: Apache-2.0
#include "reports/result/result_json.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "io/json.h"
#include "reports/result/schema.h"
#include "reports/testing/test_cells.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

std::string Failure(const Value& value) {
  try {
    CellFromValue(value);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

// Replaces one member and leaves the checksums as they are.
Value Changed(const std::string& group, const std::string& key, const Value& value) {
  Value document = CellToValue(ExampleCell());
  Object& members = document.as_object();
  (group.empty() ? members : members[group].as_object())[key] = value;
  return document;
}

TEST_CASE("cell: a round trip keeps every field") {
  const CellResult cell = ExampleCell();
  const std::string text = DumpCell(cell);
  const CellResult back = ParseCell(text, "result.json");
  CHECK(DumpCell(back) == text);
  CHECK(back.run_id == cell.run_id);
  CHECK(back.seed == cell.seed);
  CHECK(back.accuracy.size() == cell.accuracy.size());
  CHECK(back.accuracy[0].axes == cell.accuracy[0].axes);
  CHECK(back.accuracy[0].ci_items->high == cell.accuracy[0].ci_items->high);
  CHECK(back.throughput[0].samples_ms == cell.throughput[0].samples_ms);
  CHECK(back.model.state_bytes_measured == cell.model.state_bytes_measured);
  CHECK(back.steps_to_threshold == cell.steps_to_threshold);
}

TEST_CASE("cell: a planned cell of which nothing is known has nulls, not zeros") {
  const Value document = CellToValue(CellResult());
  CHECK(document.Find("model_facts")->Find("num_parameters")->is_null());
  CHECK(document.Find("model_facts")->Find("state_bytes")->is_null());
  CHECK(document.Find("steps_to_threshold")->is_null());
  CHECK(document.Find("solved")->is_null());
  CHECK(DumpCell(CellFromValue(document)) == io::DumpJson(document, 2));
}

TEST_CASE("cell: auxiliary losses stand by name on the learning curve, where there are any") {
  CellResult cell = ExampleCell();
  CHECK(cell.learning_curve.back().auxiliary_losses.empty());
  CHECK(DumpCell(cell).find("auxiliary_losses") == std::string::npos);
  cell.learning_curve.back().auxiliary_losses = {{"balance", 1.25}, {"z", std::nan("")}};
  const CellResult back = ParseCell(DumpCell(cell), "result.json");
  CHECK(back.learning_curve.back().auxiliary_losses.at("balance") == 1.25);
  CHECK(std::isnan(back.learning_curve.back().auxiliary_losses.at("z")));
}

TEST_CASE("cell: numbers that are not finite become null beside a state") {
  CellResult cell = ExampleCell();
  cell.state = CellState::kDiverged;
  cell.learning_curve.back().train_loss = std::nan("");
  cell.accuracy[0].nll = std::numeric_limits<double>::infinity();
  const CellResult back = ParseCell(DumpCell(cell), "result.json");
  CHECK(std::isnan(back.learning_curve.back().train_loss));
  CHECK_FALSE(back.accuracy[0].nll.has_value());
  CHECK(Solved(back) == false);
}

TEST_CASE("cell: seeds above 2^53 are written as strings and read back exactly") {
  CellResult cell = ExampleCell();
  for (const std::uint64_t seed :
       {std::uint64_t{0}, std::uint64_t{1} << 53, (std::uint64_t{1} << 53) + 1, UINT64_MAX}) {
    cell.seed = seed;
    const Value document = CellToValue(cell);
    CHECK(document.Find("identity")->Find("seed")->is_string() == (seed > (1ull << 53)));
    CHECK(CellFromValue(document).seed == seed);
  }
}

TEST_CASE("cell: times do not reach the content checksum") {
  CellResult slow = ExampleCell();
  slow.started = "2030-01-01T00:00:00Z";
  slow.wall_s = 9999;
  slow.learning_curve[0].elapsed_s = 77;
  slow.throughput[0].samples_ms[0] = 1e6;
  const auto content = [](const CellResult& cell) {
    return CellToValue(cell).Find("integrity")->Find("content_sha256")->as_string();
  };
  CHECK(content(slow) == content(ExampleCell()));
  slow.accuracy[0].num_correct -= 1;
  CHECK(content(slow) != content(ExampleCell()));
}

TEST_CASE("cell: what ran is content, how it was queued is not") {
  const auto content = [](const CellResult& cell) {
    return CellToValue(cell).Find("integrity")->Find("content_sha256")->as_string();
  };
  CellResult eager = ExampleCell();
  REQUIRE_FALSE(eager.plans.empty());
  eager.plans[0].execution = "eager";
  eager.plans[0].eager_reason = "--no-graph";
  CHECK(content(eager) == content(ExampleCell()));
  CellResult other = ExampleCell();
  other.plans[0].functions[0].forward = "aten";
  CHECK(content(other) != content(ExampleCell()));
}

TEST_CASE("cell: plans come back, shapes with equal ones stand together") {
  const CellResult cell = ExampleCell();
  const Value document = CellToValue(cell);
  CHECK(document.Find("plans")->as_array().size() == 2);  // fwd and fwd_bwd, whatever the length
  const CellResult back = CellFromValue(document);
  REQUIRE(back.plans.size() == cell.plans.size());
  CHECK(back.plans[1].functions == cell.plans[1].functions);
  CHECK(back.plans[1].seq_len == cell.plans[1].seq_len);
  CHECK(back.throughput[0].parity->tolerance == cell.throughput[0].parity->tolerance);
  CHECK(back.throughput[0].parity->quantity == cell.throughput[0].parity->quantity);
  CHECK(CellToValue(back) == document);
}

TEST_CASE("cell: damage and edits are found") {
  CHECK_THAT(Failure(Changed("state", "step", 1)), Catch::Contains("checksum"));
  CHECK_THAT(Failure(Changed("time", "wall_s", 1.0)), Catch::Contains("checksum"));
  const std::string good = DumpCell(ExampleCell());
  for (std::size_t size = 0; size + 1 < good.size(); size += 97) {
    CHECK_THROWS_AS(ParseCell(good.substr(0, size), "x"), Error);
  }
}

// Computes both checksums as docs/REPORT_SCHEMA.md says, apart from the code under test.
Value Sealed(Value document) {
  Object& members = document.as_object();
  members.erase("integrity");
  members["time"].as_object().erase("document_sha256");
  const std::string whole = "sha256:" + Sha256Hex(io::DumpJson(document));
  Value content = document;
  content.as_object().erase("time");
  content.as_object().erase("throughput");
  for (Value& point : content.as_object()["learning_curve"].as_array()) {
    point.as_object().erase("elapsed_s");
  }
  if (content.Find("plans") != nullptr) {
    for (Value& group : content.as_object()["plans"].as_array()) {
      for (Value& run : group.as_object()["runs"].as_array()) {
        run.as_object().erase("execution");
        run.as_object().erase("eager_reason");
      }
    }
  }
  members["integrity"] = Object{{"content_sha256", "sha256:" + Sha256Hex(io::DumpJson(content))}};
  members["time"].as_object()["document_sha256"] = whole;
  return document;
}

// A training without result, whose plan knows what it was to reach.
Value Missing(CellState state) {
  CellResult cell = TrainedCell("mqar/gla/lr=0.5");
  cell.run_id = cell.group_id = "sha256:" + Sha256Hex("missing");
  cell.state = state;
  cell.reason = state == CellState::kInterrupted ? "no result: stopped" : "";
  cell.threshold = 0.95;
  return CellToValue(cell);
}

TEST_CASE("cell: what a cell without result does not know is null, and was 0 before 1.12") {
  for (const CellState state : {CellState::kPlanned, CellState::kInterrupted}) {
    Value document = Missing(state);
    CHECK(ValidateCell(document) == std::vector<std::string>());
    const std::string text = io::DumpJson(document);
    const auto at = [&](const char* group, const char* key) -> Value& {
      return document.as_object()[group].as_object()[key];
    };
    CHECK(at("state", "step").is_null());
    CHECK(at("time", "wall_s").is_null());
    CHECK(at("time", "tokens_seen").is_null());
    CHECK(at("steps_to_threshold", "censored").is_null());
    CHECK(document.Find("solved")->is_null());
    CHECK(io::DumpJson(CellToValue(CellFromValue(document))) == text);

    at("state", "step") = at("time", "tokens_seen") = 0;
    at("time", "wall_s") = 0.0;
    at("steps_to_threshold", "censored") = true;
    document.as_object()["solved"] = false;
    CHECK(io::DumpJson(CellToValue(CellFromValue(Sealed(document)))) == text);
  }
  Value ended = CellToValue(ExampleCell());
  ended.as_object()["state"].as_object()["step"] = Value();
  CHECK_THAT(Failure(Sealed(ended)), Catch::StartsWith("/state/step: "));
}

TEST_CASE("cell: a result of 1.2 has neither plans nor comparisons, and stays readable") {
  Value document = CellToValue(ExampleCell());
  document.as_object()["schema_version"] = "1.2.0";
  document.as_object().erase("plans");
  for (Value& row : document.as_object()["throughput"].as_array()) row.as_object().erase("parity");
  const CellResult back = CellFromValue(Sealed(document));
  CHECK(back.plans.empty());
  CHECK_FALSE(back.throughput[0].parity);
  CHECK(back.throughput[0].parity_check == "passed");
}

TEST_CASE("cell: a result of 1.9 says nothing of energy, clocks and its machine") {
  Value document = CellToValue(ExampleCell());
  document.as_object()["schema_version"] = "1.9.0";
  for (const char* key : {"energy_j", "machine"}) {
    document.as_object()["time"].as_object().erase(key);
  }
  for (Value& row : document.as_object()["throughput"].as_array()) {
    for (const char* key : {"throttle", "throttled_samples_dropped", "energy_j"}) {
      row.as_object().erase(key);
    }
  }
  const CellResult back = CellFromValue(Sealed(document));
  CHECK_FALSE(back.energy_j);
  CHECK(back.machine.is_null());
  CHECK_FALSE(back.throughput[1].throttle);
  CHECK(back.throughput[1].throttled_samples_dropped == 0);
  CHECK_FALSE(back.throughput[1].energy_j);
}

TEST_CASE("cell: a timing is lost to slowdowns from more than a fifth of its samples on") {
  ThroughputRow row;
  CHECK_FALSE(IsThrottled(row));
  row.samples_ms = {1, 1, 1, 1};
  row.throttled_samples_dropped = 1;
  CHECK_FALSE(IsThrottled(row));
  row.samples_ms.pop_back();
  CHECK(IsThrottled(row));
}

TEST_CASE("cell: unknown members of a later minor version are accepted") {
  Value document = CellToValue(ExampleCell());
  CHECK(Sealed(document) == document);
  Object& members = document.as_object();
  members["schema_version"] = "1.7.0";
  members["new_group"] = Array{1, 2};
  members["state"].as_object()["attempts"] = 2;
  CHECK(CellFromValue(Sealed(document)).run_id == ExampleCell().run_id);
  CHECK_THAT(Failure(document), Catch::Contains("checksum"));
}

TEST_CASE("cell: members that older minor versions did not write may be missing") {
  Value document = CellToValue(ExampleCell());
  Object& row = document.as_object()["accuracy_by_length"].as_array()[0].as_object();
  row.erase("accuracy_macro_batched");
  row.erase("ceiling");
  const CellResult cell = CellFromValue(Sealed(document));
  CHECK_FALSE(cell.accuracy[0].accuracy_macro_batched);
  CHECK_FALSE(cell.accuracy[0].ceiling);
}

TEST_CASE("cell: missing and mistyped members are named") {
  CHECK(Failure(Sealed(Changed("state", "step", "many"))) ==
        "/state/step: expected an integer, got string");
  CHECK(Failure(Sealed(Changed("state", "value", "fine"))) == "/state/value: unknown value 'fine'");
  CHECK(Failure(Sealed(Changed("identity", "seed", -1))) ==
        "/identity/seed: expected an integer of 0..2^64-1, or one as a string");
  Value document = CellToValue(ExampleCell());
  document.as_object()["accuracy_by_length"].as_array()[2].as_object().erase("chance");
  CHECK(Failure(Sealed(document)) == "/accuracy_by_length/2/chance: missing");
  document.as_object()["accuracy_by_length"].as_array()[2].as_object()["chance"] = Value();
  CHECK(Failure(Sealed(document)) == "/accuracy_by_length/2/chance: expected a number, got null");
}

TEST_CASE("cell: what repeats other members must agree with them") {
  const Value document = CellToValue(ExampleCell());
  REQUIRE(document.Find("solved")->as_bool());
  CHECK_THAT(Failure(Sealed(Changed("", "solved", false))), Catch::StartsWith("/solved: "));
  CHECK_THAT(Failure(Sealed(Changed("", "solved", Value()))), Catch::StartsWith("/solved: "));
  CHECK_THAT(Failure(Sealed(Changed("steps_to_threshold", "censored", true))),
             Catch::StartsWith("/steps_to_threshold/censored: "));
}

TEST_CASE("cell: another major version and another kind are refused in words") {
  CHECK(Failure(Changed("", "schema_version", "2.1.0")) ==
        "/schema_version: this report has schema 2.1.0, this program reads 1.x; use the mixerbench "
        "release that wrote it, or run the suite again");
  CHECK(Failure(Changed("", "kind", "sweep")) ==
        "/kind: expected a document of kind 'run', got 'sweep'");
  CHECK(Failure(Array{}) == "expected an object, got array");
}

}  // namespace
}  // namespace mixerbench::reports
