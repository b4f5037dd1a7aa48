// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/table.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <utility>

#include "io/json.h"

namespace mixerbench::accuracy {
namespace {

// Three digits: more is noise, and would not fit on a page.
Value Rounded(double value) { return std::strtod(fmt::format("{:.2e}", value).c_str(), nullptr); }

double ScaleOf(const Comparison& c) { return c.norm > 0 ? c.norm : std::max(c.largest, 1e-300); }

Value WorstToValue(const Comparison& worst) {
  Object value{{"of", worst.name},
               {"ratio", Rounded(Ratio(worst))},
               {"error", Rounded(worst.error / ScaleOf(worst))},
               {"naive_error", Rounded(worst.naive_error / ScaleOf(worst))},
               {"num_elements", worst.num_elements}};
  if (worst.num_parts > 1) value["median_of_parts"] = worst.num_parts;
  return value;
}

Value ResultToValue(const Accuracy& accuracy) {
  Object result{{"outcome", "passed"},
                {"plans", Array(accuracy.plans.begin(), accuracy.plans.end())},
                {"worst", nullptr}};
  if (accuracy.num_pieces > 1) result["pieces"] = accuracy.num_pieces;
  if (!accuracy.failure.empty()) {
    result["outcome"] = accuracy.skipped ? "skipped" : "failed";
    result["reason"] = accuracy.failure;
  }
  const auto& all = accuracy.comparisons;
  const auto worst = std::max_element(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return Ratio(a) < Ratio(b); });
  if (worst == all.end()) return result;
  if (!std::isfinite(Ratio(*worst))) {
    result["outcome"] = "failed";
    result["reason"] = worst->name + " is not finite";
    return result;
  }
  result["worst"] = WorstToValue(*worst);
  if (Ratio(*worst) > 1) result["outcome"] = "failed";
  return result;
}

const Array& Rows(const Value& table) { return table.Find("rows")->as_array(); }
const Array& Pools(const Value& table) { return table.Find("pools")->as_array(); }
const std::string& Text(const Value& object, std::string_view key) {
  return object.Find(key)->as_string();
}
double Number(const Value& object, std::string_view key) { return object.Find(key)->as_double(); }

}  // namespace

const Value& TableBuilder::Add(const std::string& unit, const Object& factors,
                               const std::vector<Accuracy>& accuracies) {
  Object results;
  for (const Accuracy& accuracy : accuracies) {
    results[std::string(NameOf(accuracy.precision))] = ResultToValue(accuracy);
    AddToPools(unit, accuracy);
  }
  rows_.push_back(Object{{"unit", unit}, {"factors", factors}, {"results", std::move(results)}});
  return rows_.back();
}

void TableBuilder::AddToPools(const std::string& unit, const Accuracy& accuracy) {
  for (const Comparison& c : accuracy.comparisons) {
    if (!std::isfinite(Ratio(c)) || c.num_elements == 0) continue;  // a failure by itself
    // Where all cancels, the error and not the exact value tells the size.
    const double rounding = RoundingFloor(c);
    const double scale = c.norm + c.naive_error + rounding;
    if (scale == 0) continue;
    const double naive = c.naive_error / scale;
    Sums& sums = pools_[{unit, std::string(NameOf(accuracy.precision)), c.name}];
    sums.error += std::pow(c.error / scale, 2);
    sums.rounding += std::pow(rounding / scale, 2);
    sums.naive_error += naive * naive;
    sums.naive_per_element += std::pow(naive, 4) / c.naive_participants;
  }
}

Value TableBuilder::Judge(const PoolKey& key, const Sums& sums) {
  // Cases count by their share of the sum (Welch and Satterthwaite).
  const double num_elements =
      sums.naive_per_element > 0 ? std::pow(sums.naive_error, 2) / sums.naive_per_element : 1;
  const double tolerance =
      2 * ChanceFactor(num_elements) * std::sqrt(sums.naive_error) + std::sqrt(sums.rounding);
  return Object{{"unit", std::get<0>(key)},
                {"precision", std::get<1>(key)},
                {"of", std::get<2>(key)},
                {"ratio", Rounded(std::sqrt(sums.error) / tolerance)},
                {"num_elements", Rounded(num_elements)}};
}

Value TableBuilder::Build() const {
  std::map<std::pair<std::string, std::string>, Value> worst;
  Array pools;
  for (const auto& [key, sums] : pools_) {
    Value pool = Judge(key, sums);
    auto& known = worst[{std::get<0>(key), std::get<1>(key)}];
    if (known.is_null() || Number(known, "ratio") < Number(pool, "ratio")) std::swap(known, pool);
    if (!pool.is_null() && Number(pool, "ratio") > 1) pools.push_back(pool);
  }
  for (const auto& [key, pool] : worst) pools.push_back(pool);
  return Object{{"rows", rows_}, {"pools", pools}};
}

Value MergeTables(const std::vector<Value>& tables) {
  Array rows, pools;
  for (const Value& table : tables) {
    rows.insert(rows.end(), Rows(table).begin(), Rows(table).end());
    pools.insert(pools.end(), Pools(table).begin(), Pools(table).end());
  }
  const auto by_unit = [](const Value& a, const Value& b) {
    return Text(a, "unit") < Text(b, "unit");
  };
  std::stable_sort(rows.begin(), rows.end(), by_unit);
  std::stable_sort(pools.begin(), pools.end(), by_unit);
  return Object{{"rows", std::move(rows)}, {"pools", std::move(pools)}};
}

bool Passed(const Value& table) {
  const bool rows_passed = std::all_of(Rows(table).begin(), Rows(table).end(), [](const auto& row) {
    const Object& results = row.Find("results")->as_object();
    return std::none_of(results.begin(), results.end(), [](const auto& result) {
      return Text(result.second, "outcome") == "failed";
    });
  });
  return rows_passed && std::all_of(Pools(table).begin(), Pools(table).end(),
                                    [](const auto& pool) { return Number(pool, "ratio") <= 1; });
}

bool DeclaredPlan::IsIn(std::string_view text) const {
  const auto space = text.find(' ');
  if (text.substr(0, space) != core) return false;
  const auto plans = text.substr(space + 1);
  const auto slash = plans.find('/');
  // "scan, keys padded to 32" is a scan.
  const auto is_it = [this](std::string_view name) {
    return name.substr(0, name.find(',')) == plan;
  };
  return is_it(plans.substr(0, slash)) || is_it(plans.substr(slash + 1));
}

Value CountPlans(const Value& table, const std::vector<DeclaredPlan>& declared) {
  Array counts;
  for (const DeclaredPlan& plan : declared) {
    std::int64_t num_cases = 0;
    for (const Value& row : Rows(table)) {
      const Value* result = row.Find("results")->Find(plan.precision);
      if (result == nullptr) continue;
      const Array& ran = result->Find("plans")->as_array();
      num_cases += std::any_of(ran.begin(), ran.end(),
                               [&](const Value& text) { return plan.IsIn(text.as_string()); });
    }
    counts.push_back(Object{{"core", plan.core},
                            {"plan", plan.plan},
                            {"precision", plan.precision},
                            {"num_cases", num_cases}});
  }
  return counts;
}

std::string DumpTable(const Value& table, const Object& facts) {
  std::string text = "{\n";
  for (const auto& [key, fact] : facts) {
    text += io::DumpJson(key) + ": " + io::DumpJson(fact) + ",\n";
  }
  for (const char* list : {"pools", "rows"}) {
    text += fmt::format("\"{}\": [", list);
    const char* separator = "\n";
    for (const Value& item : table.Find(list)->as_array()) {
      text += separator + io::DumpJson(item);
      separator = ",\n";
    }
    text += list == std::string_view("rows") ? "\n]\n" : "\n],\n";
  }
  return text + "}\n";
}

}  // namespace mixerbench::accuracy
