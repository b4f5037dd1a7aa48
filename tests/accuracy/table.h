// The conformance table: what every case was off by, and what that means.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/value.h"
#include "tests/accuracy/comparison.h"

namespace mixerbench::accuracy {

// Collects cases. The table itself is a value:
//
//   {"rows":  [{"unit": "mixer gla", "factors": {...},
//               "results": {"bf16": {"outcome": "passed" | "failed" | "skipped", "reason": ...,
//                                    "plans": ["gla fused/fused", ...],
//                                    "pieces": of the batch, where the device lacks memory for all,
//                                    "worst": {"of": "d x", "ratio": ..., "median_of_parts": of the
//                                              batch, if these decided} | null}, ...}}, ...],
//    "pools": [{"unit", "precision", "of", "ratio", "num_elements"}, ...]}
//
// `ratio` is error / tolerance. A pool is one output or gradient in all cases of a unit and
// precision together: a parameter with a number per head has too few to be judged case by case.
// Listed are the worst pool of each unit and precision, and every one above 1.
class TableBuilder {
 public:
  // Returns the row.
  const Value& Add(const std::string& unit, const Object& factors,
                   const std::vector<Accuracy>& accuracies);

  Value Build() const;

 private:
  // Sums over cases, of squares of what is relative to the size of the output or gradient.
  struct Sums {
    double error = 0;
    double naive_error = 0;
    double rounding = 0;
    double naive_per_element = 0;  // of naive_error squared, over its participants
  };
  using PoolKey = std::tuple<std::string, std::string, std::string>;  // unit, precision, name

  void AddToPools(const std::string& unit, const Accuracy& accuracy);
  static Value Judge(const PoolKey& key, const Sums& sums);

  Array rows_;
  std::map<PoolKey, Sums> pools_;
};

// The table of several that have no unit in common.
Value MergeTables(const std::vector<Value>& tables);

// Device code that a core declares.
struct DeclaredPlan {
  std::string core, plan, precision;

  // Whether it is the forward or backward plan of "core forward/backward".
  bool IsIn(std::string_view text) const;
};

// [{"core", "plan", "precision", "num_cases"}, ...]: how many cases ran what is declared.
Value CountPlans(const Value& table, const std::vector<DeclaredPlan>& declared);

// Nothing failed.
bool Passed(const Value& table);

// Text of the table with `facts` about the run; a line for each row.
std::string DumpTable(const Value& table, const Object& facts);

// For people: a summary by unit, what failed, then every case.
std::string RenderMarkdown(const Value& table, const Object& facts);

}  // namespace mixerbench::accuracy
