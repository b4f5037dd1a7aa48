// A test of two groups of values that assumes nothing about how they are distributed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace mixerbench::reports {

// The p value of Fisher's permutation test, two-sided, that two groups have the same distribution:
// the share of the ways to divide all values into groups of these sizes of which the means differ
// by as much or more. All ways where there are at most 20,000 (two groups of eight), else 1,999
// drawn by a counter-based generator and the given one (Phipson and Smyth 2010). Both groups need
// a value; two of three never reach 0.05.
double PermutationPValue(std::span<const double> a, std::span<const double> b);

}  // namespace mixerbench::reports
