// SPDX-License-Identifier: Apache-2.0
#include "reports/result/result_json.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "io/json.h"
#include "io/object_reader.h"
#include "reports/result/plan_json.h"
#include "reports/result/result_fields.h"

namespace mixerbench::reports {
namespace {

constexpr std::int64_t kLargestExactInteger = std::int64_t{1} << 53;  // of readers with doubles

// Unknown facts are null, never 0.
Value ModelToValue(const ModelFacts& model) {
  Object object = WriteFields(kModelFields, model);
  // A model without a state (all zeros at some length) differs from one that was never measured.
  const bool has_state = model.state_at_num_tokens > 0;
  object["state_bytes"] = has_state ? Value(WriteFields(kStateBytesFields, model)) : Value();
  return object;
}

ModelFacts ModelFromValue(const io::ObjectReader& reader) {
  ModelFacts model;
  ReadFields(kModelFields, reader, model);
  if (!reader.IsNull("state_bytes")) {
    ReadFields(kStateBytesFields, reader.Nested("state_bytes"), model);
  }
  return model;
}

Value ThresholdToValue(const CellResult& cell) {
  if (cell.threshold <= 0) return {};
  const bool is_censored = !cell.steps_to_threshold.has_value();
  return Object{{"metric", "validation.accuracy"},
                {"threshold", cell.threshold},
                {"steps", cell.steps_to_threshold ? Value(*cell.steps_to_threshold) : Value()},
                {"censored", is_censored && IsMissing(cell) ? Value() : Value(is_censored)}};
}

// The document without its checksums and times.
Value ReproduciblePart(const Value& document) {
  Value copy = document;
  Object& members = copy.as_object();
  for (const char* key : {"integrity", "time", "throughput"}) members.erase(key);
  if (const auto plans = members.find("plans"); plans != members.end())
    DropExecution(plans->second);
  if (const auto curve = members.find("learning_curve");
      curve != members.end() && curve->second.is_array()) {
    for (Value& point : curve->second.as_array()) {
      if (point.is_object()) point.as_object().erase("elapsed_s");
    }
  }
  return copy;
}

// The document without its checksums.
Value WholeContent(const Value& document) {
  Value copy = document;
  Object& members = copy.as_object();
  members.erase("integrity");
  if (const auto time = members.find("time"); time != members.end() && time->second.is_object()) {
    time->second.as_object().erase("document_sha256");
  }
  return copy;
}

std::string Checksum(const Value& value) { return "sha256:" + Sha256Hex(io::DumpJson(value)); }

void CheckChecksum(const io::ObjectReader& reader, std::string_view key, const Value& content) {
  if (reader.String(key) == Checksum(content)) return;
  throw Error(ExitCode::kBadInput, reader.Pointer(key) +
                                       ": the content does not match its checksum; the file was "
                                       "damaged or edited, run the cell again");
}

// What repeats other members must agree with them, so that readers may take either.
void CheckDerived(const io::ObjectReader& reader, const CellResult& cell) {
  const auto fail = [](const std::string& pointer, const std::string& of) {
    throw Error(ExitCode::kBadInput, pointer + ": does not agree with " + of);
  };
  const std::optional<bool> solved = Solved(cell);
  const Value& told = reader.Member("solved");
  // Before 1.12 a cell without result was told to be unsolved and censored.
  const bool is_of_older_form = IsMissing(cell) && told == Value(false);
  if (!is_of_older_form && told != (solved ? Value(*solved) : Value())) {
    fail(reader.Pointer("solved"), "the state and steps_to_threshold");
  }
  if (reader.IsNull("steps_to_threshold")) return;
  const io::ObjectReader threshold = reader.Nested("steps_to_threshold");
  if (IsMissing(cell) && threshold.IsNull("censored")) return;
  if (threshold.Bool("censored") == cell.steps_to_threshold.has_value()) {
    fail(threshold.Pointer("censored"), "steps");
  }
}

}  // namespace

Value IntervalToValue(const std::optional<Interval>& interval) {
  if (!interval || !std::isfinite(interval->low) || !std::isfinite(interval->high)) return {};
  return WriteFields(Bound<Interval>::kFields, *interval);
}

Value SeedToValue(std::uint64_t seed) {
  if (seed <= static_cast<std::uint64_t>(kLargestExactInteger)) return seed;
  return std::to_string(seed);
}

Value NumberOrNull(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? Value(*number) : Value();
}

Value TextOrNull(const std::string& text) { return text.empty() ? Value() : Value(text); }

Value PhaseToValue(CellPhase phase) {
  return phase == CellPhase::kNone ? Value() : Value(std::string(NameOf(phase)));
}

Value GuessesToValue(const std::vector<Guess>& guesses) {
  return internal::Write<Null::kNever>(guesses);
}

std::optional<bool> Solved(const CellResult& cell) {
  if (cell.threshold <= 0 || IsMissing(cell)) return std::nullopt;
  return cell.state == CellState::kCompleted && cell.steps_to_threshold.has_value();
}

Value CellToValue(const CellResult& cell) {
  const std::optional<bool> solved = Solved(cell);
  Object members = WriteFields(kDocumentFields, cell);
  members["schema_version"] = kSchemaVersion;
  members["kind"] = "run";
  members["identity"] = WriteFields(kIdentityFields, cell);
  members["state"] = WriteFields(kStateFields, cell);
  members["model_facts"] = ModelToValue(cell.model);
  members["time"] = WriteFields(kTimeFields, cell);
  members["steps_to_threshold"] = ThresholdToValue(cell);
  members["solved"] = solved ? Value(*solved) : Value();
  members["plans"] = PlansToValue(cell.plans);
  Value document = std::move(members);
  document.as_object()["integrity"] =
      Object{{"content_sha256", Checksum(ReproduciblePart(document))}};
  document.as_object()["time"].as_object()["document_sha256"] = Checksum(WholeContent(document));
  return document;
}

void CheckDocument(const Value& document, std::string_view kind, const std::string& where) {
  const io::ObjectReader reader(document, where);
  const std::string version = reader.String("schema_version");
  const std::string_view major = kSchemaVersion.substr(0, kSchemaVersion.find('.'));
  if (version.substr(0, version.find('.')) != major) {
    throw Error(ExitCode::kBadInput,
                reader.Pointer("schema_version") + ": this report has schema " + version +
                    ", this program reads " + std::string(major) +
                    ".x; use the mixerbench release that wrote it, or run the suite again");
  }
  if (const std::string found = reader.String("kind"); found != kind) {
    throw Error(ExitCode::kBadInput, reader.Pointer("kind") + ": expected a document of kind '" +
                                         std::string(kind) + "', got '" + found + "'");
  }
}

CellResult CellFromValue(const Value& value, const std::string& where) {
  CheckDocument(value, "run", where);
  const io::ObjectReader reader(value, where);
  CheckChecksum(reader.Nested("time"), "document_sha256", WholeContent(value));
  CheckChecksum(reader.Nested("integrity"), "content_sha256", ReproduciblePart(value));

  CellResult cell;
  ReadFields(kDocumentFields, reader, cell);
  ReadFields(kIdentityFields, reader.Nested("identity"), cell);
  ReadFields(kStateFields, reader.Nested("state"), cell);
  ReadFields(kTimeFields, reader.Nested("time"), cell);
  cell.model = ModelFromValue(reader.Nested("model_facts"));
  cell.plans = PlansFrom(reader, "plans");
  if (!reader.IsNull("steps_to_threshold")) {
    const io::ObjectReader threshold = reader.Nested("steps_to_threshold");
    cell.threshold = threshold.Number("threshold");
    cell.steps_to_threshold = threshold.OptionalInt("steps");
  }
  CheckDerived(reader, cell);
  return cell;
}

std::string DumpCell(const CellResult& cell) { return io::DumpJson(CellToValue(cell), 2); }

CellResult ParseCell(std::string_view text, const std::string& path) {
  try {
    return CellFromValue(io::ParseJson(text, io::kReportLimits));
  } catch (const Error& error) {
    throw Error(ExitCode::kBadInput, path + ": " + error.what());
  }
}

}  // namespace mixerbench::reports
