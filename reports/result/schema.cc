// SPDX-License-Identifier: Apache-2.0
#include "reports/result/schema.h"

#include <memory>
#include <stdexcept>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "io/json.h"
#include "reports/result/schema_text.h"

// valijson works on a document of a JSON library; only here, and only for a text that DumpJson
// made.
namespace mixerbench::reports {
namespace {

using Json = nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

constexpr std::string_view kCellSchemaFile = "cell-1.schema.json";

const Json* FetchSchema(const std::string& uri) {
  if (uri != kCellSchemaFile) throw std::logic_error("a schema refers to an unknown " + uri);
  return std::make_unique<Json>(Json::parse(CellSchema())).release();
}

void FreeSchema(const Json* document) { std::unique_ptr<const Json>{document}; }

// "<root>[groups][0]" in valijson's words is "/groups/0" in ours.
std::string Pointer(const std::vector<std::string>& context) {
  std::string pointer;
  for (const std::string& step : context) {
    if (step.size() < 2 || step.front() != '[') continue;
    pointer += "/" + io::PointerToken(std::string_view(step).substr(1, step.size() - 2));
  }
  return pointer;
}

constexpr std::string_view kDefinitions = "#/definitions/";
constexpr std::string_view kCellPrefix = "cell.";  // of its definitions in the report's

// Lets what the cell's schema says of its own definitions stand within the report's. Its depth is
// that of a file of ours.
void MoveReferences(Json& schema) {
  for (auto& [key, part] : schema.items()) {
    if (key == "$ref" && part.is_string()) {
      std::string target = part.get<std::string>();
      if (!target.starts_with(kDefinitions)) throw std::logic_error("a cell refers to " + target);
      part = target.insert(kDefinitions.size(), kCellPrefix);
    } else if (part.is_structured()) {
      MoveReferences(part);
    }
  }
}

}  // namespace

std::vector<std::string> ValidateAgainst(std::string_view schema_text, const Value& document) {
  const Json schema_json = Json::parse(schema_text);
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(Adapter(schema_json), schema, FetchSchema, FreeSchema);
  const Json target = Json::parse(io::DumpJson(document));
  valijson::ValidationResults results;
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  if (validator.validate(schema, Adapter(target), &results)) return {};
  std::vector<std::string> faults;
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    faults.push_back(Pointer(error.context) + ": " + error.description);
  }
  return faults;
}

std::string WholeReportSchema() {
  Json report = Json::parse(ReportSchema());
  Json cell = Json::parse(CellSchema());
  MoveReferences(cell);
  Json& definitions = report["definitions"];
  for (auto& [name, definition] : cell["definitions"].items()) {
    definitions[std::string(kCellPrefix) + name] = std::move(definition);
  }
  cell.erase("$schema");
  cell.erase("definitions");
  definitions["cell"] = std::move(cell);
  report["properties"]["cells"]["items"]["$ref"] = "#/definitions/cell";
  constexpr int kIndent = 2;
  return report.dump(kIndent);
}

std::string_view CellSchema() { return kCellSchemaText; }
std::string_view DatasetSchema() { return kDatasetSchemaText; }
std::string_view ReportSchema() { return kReportSchemaText; }
std::string_view LeaderboardSchema() { return kLeaderboardSchemaText; }
std::string_view ScoreSchema() { return kScoreSchemaText; }

std::vector<std::string> ValidateCell(const Value& document) {
  return ValidateAgainst(CellSchema(), document);
}

std::vector<std::string> ValidateDataset(const Value& document) {
  return ValidateAgainst(DatasetSchema(), document);
}

std::vector<std::string> ValidateReport(const Value& document) {
  return ValidateAgainst(ReportSchema(), document);
}

std::vector<std::string> ValidateLeaderboard(const Value& document) {
  return ValidateAgainst(LeaderboardSchema(), document);
}

std::vector<std::string> ValidateScore(const Value& document) {
  return ValidateAgainst(ScoreSchema(), document);
}

}  // namespace mixerbench::reports
