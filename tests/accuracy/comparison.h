// Errors, what they may be, and how each precision fared. No torch: tables are made of these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mixerbench::accuracy {

enum class Precision { kFp32, kTf32, kBf16 };

std::string_view NameOf(Precision precision);

// One output ("y"), or the gradient ("d x") of a fixed random weighting of all outputs.
struct Comparison {
  std::string name;
  std::int64_t num_elements = 0;
  double norm = 0;         // Frobenius norms: of the exact values,
  double error = 0;        // of what the fast path is off by, not finite when a value is not,
  double naive_error = 0;  // of what the naive run is off by;
  // How many numbers make up the naive error: (sum e^2)^2 / sum e^4. A few tokens whose norms are
  // small may hold nearly all of it.
  double naive_participants = 1;
  double largest = 0;  // the largest `norm` of all outputs, or of all gradients
  // Above 1: of the part of the batch, one of so many, that has the median ratio.
  std::int64_t num_parts = 1;
};

// What the rounding of fp32 may leave besides twice the naive error.
double RoundingFloor(const Comparison& comparison);

// By how much an error of `num_elements` numbers may exceed another of the same distribution by
// chance, once in ten million: the root of a quantile of the F distribution. 2 for 64 numbers,
// 1.1 for 4096.
double ChanceFactor(double num_elements);

double Tolerance(const Comparison& comparison);
// error / tolerance: at most 1 when all is well.
double Ratio(const Comparison& comparison);

// How one precision fared.
struct Accuracy {
  Precision precision = Precision::kFp32;
  std::vector<Comparison> comparisons = {};
  std::vector<std::string> plans = {};  // what the fast path ran: "function forward/backward"
  std::string failure = {};             // what went wrong besides: no result, or not the same twice
  std::int64_t num_pieces = 1;  // of the batch, where the fast path lacks memory for all of it
  bool skipped = false;         // the failure is that of the reference or of the precision
};

Accuracy Failure(Precision precision, const std::string& reason, bool skipped = false);

}  // namespace mixerbench::accuracy
