// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <utility>

#include "io/json.h"
#include "io/text.h"
#include "tests/accuracy/table.h"

namespace mixerbench::accuracy {
namespace {

using io::EscapeMarkdown;

const std::string& Text(const Value& object, std::string_view key) {
  return object.Find(key)->as_string();
}
double Number(const Value& object, std::string_view key) { return object.Find(key)->as_double(); }

std::string Line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

std::string Header(const std::vector<std::string>& cells) {
  return Line(cells) + Line(std::vector<std::string>(cells.size(), ":--"));
}

// "0.61 d x"; failures stand out.
std::string WorstText(const Value& worst, bool failed) {
  std::string of = Text(worst, "of");
  if (const Value* parts = worst.Find("median_of_parts")) {
    of += fmt::format(" (median of {} parts of the batch)", parts->as_int());
  }
  return fmt::format(fmt::runtime(failed ? "**{:.2f}** {}" : "{:.2f} {}"), Number(worst, "ratio"),
                     EscapeMarkdown(of));
}

// "fused/fused": what a core of its unit ran.
std::string PlanText(const Value& result, const std::set<std::string>& cores) {
  std::string text;
  for (const Value& plan : result.Find("plans")->as_array()) {
    const std::string& words = plan.as_string();
    const auto space = words.find(' ');
    if (!cores.contains(words.substr(0, space))) continue;
    text += (text.empty() ? "" : ", ") + words.substr(space + 1);
  }
  return text.empty() ? "" : " (" + EscapeMarkdown(text) + ")";
}

std::string ResultText(const Value& result, const std::set<std::string>& cores) {
  const bool failed = Text(result, "outcome") == "failed";
  const Value* reason = result.Find("reason");
  std::string text;
  if (reason != nullptr) {
    text = fmt::format(fmt::runtime(failed ? "**failed**: {}" : "skipped: {}"),
                       EscapeMarkdown(reason->as_string()));
  }
  const Value& worst = *result.Find("worst");
  if (worst.is_null()) return text;
  const Value* pieces = result.Find("pieces");
  if (pieces != nullptr) text += fmt::format("in {} pieces of the batch: ", pieces->as_int());
  return text + (reason == nullptr ? "" : "; ") + WorstText(worst, failed && reason == nullptr) +
         PlanText(result, cores);
}

struct Summary {
  std::map<std::string, int> outcomes;
  const Value* worst = nullptr;  // a result
  const Value* pool = nullptr;
};

// By unit and precision.
std::map<std::pair<std::string, std::string>, Summary> Summarise(const Value& table) {
  std::map<std::pair<std::string, std::string>, Summary> summaries;
  for (const Value& row : table.Find("rows")->as_array()) {
    for (const auto& [precision, result] : row.Find("results")->as_object()) {
      Summary& summary = summaries[{Text(row, "unit"), precision}];
      ++summary.outcomes[Text(result, "outcome")];
      const Value* worst = result.Find("worst");
      if (worst->is_null()) continue;
      if (summary.worst == nullptr || Number(*worst, "ratio") > Number(*summary.worst, "ratio")) {
        summary.worst = worst;
      }
    }
  }
  for (const Value& pool : table.Find("pools")->as_array()) {
    const Value*& known = summaries[{Text(pool, "unit"), Text(pool, "precision")}].pool;
    if (known == nullptr || Number(pool, "ratio") > Number(*known, "ratio")) known = &pool;
  }
  return summaries;
}

std::string SummaryTable(const Value& table) {
  std::string text = Header({"unit", "precision", "passed", "failed", "skipped", "worst case",
                             "worst of all cases together"});
  for (const auto& [key, summary] : Summarise(table)) {
    const auto count = [&outcomes = summary.outcomes](const char* outcome) {
      const auto found = outcomes.find(outcome);
      return std::to_string(found == outcomes.end() ? 0 : found->second);
    };
    const auto worst = [](const Value* value) {
      return value == nullptr ? "–" : WorstText(*value, Number(*value, "ratio") > 1);
    };
    text += Line({key.first, key.second, count("passed"), count("failed"), count("skipped"),
                  worst(summary.worst), worst(summary.pool)});
  }
  return text;
}

std::string PlanTable(const Value& plans) {
  std::string text = Header({"core", "plan", "precision", "cases"});
  for (const Value& plan : plans.as_array()) {
    text += Line({Text(plan, "core"), Text(plan, "plan"), Text(plan, "precision"),
                  std::to_string(plan.Find("num_cases")->as_int())});
  }
  return text;
}

std::string FactorText(const Value& factor) { return EscapeMarkdown(io::ValueText(factor)); }

std::string UnitTable(const std::string& unit, const std::vector<const Value*>& rows,
                      const std::set<std::string>& cores) {
  std::vector<std::string> header;
  for (const auto& [name, factor] : rows.front()->Find("factors")->as_object()) {
    header.push_back(name);
  }
  for (const auto& [precision, result] : rows.front()->Find("results")->as_object()) {
    header.push_back(precision);
  }
  std::string text = fmt::format("\n## {}\n\n{}", unit, Header(header));
  for (const Value* row : rows) {
    std::vector<std::string> cells;
    for (const auto& [name, factor] : row->Find("factors")->as_object()) {
      cells.push_back(FactorText(factor));
    }
    for (const auto& [precision, result] : row->Find("results")->as_object()) {
      cells.push_back(ResultText(result, cores));
    }
    text += Line(cells);
  }
  return text;
}

}  // namespace

std::string RenderMarkdown(const Value& table, const Object& facts) {
  std::string text = "# Conformance\n\n";
  for (const auto& [name, fact] : facts) {
    if (name != "plans") text += fmt::format("- {}: {}\n", name, FactorText(fact));
  }
  text +=
      "\nEvery case gives the worst ratio of an error to its tolerance (at most 1), and what it is "
      "of: an output, or the gradient (`d`) of an input or parameter; in brackets what the core "
      "ran, "
      "forward/backward.\n\n" +
      SummaryTable(table);
  const auto plans = facts.find("plans");
  std::set<std::string> cores;
  if (plans != facts.end()) {
    text += "\n" + PlanTable(plans->second);
    for (const Value& plan : plans->second.as_array()) cores.insert(Text(plan, "core"));
  }
  std::map<std::string, std::vector<const Value*>> units;
  for (const Value& row : table.Find("rows")->as_array()) units[Text(row, "unit")].push_back(&row);
  for (const auto& [unit, rows] : units) text += UnitTable(unit, rows, cores);
  return text;
}

}  // namespace mixerbench::accuracy
