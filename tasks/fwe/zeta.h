// How often words of each rank are listed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::tasks::fwe {

// Riemann's zeta function for alpha > 1, to about 1e-13.
double Zeta(double alpha);

// floor(size * rank^-alpha / zeta): times that the word of `rank` >= 1 is listed among `size`.
std::int64_t RankCount(std::int64_t size, std::int64_t rank, double alpha, double zeta);

}  // namespace mixerbench::tasks::fwe
