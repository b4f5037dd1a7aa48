// The bootstrap of a median without resampling: its distribution over all n^n resamples, in closed
// form (Hutson and Ernst 2000). The same data give the same bound; there is no seed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace mixerbench::gate {

class MedianBootstrap {
 public:
  // Needs one value or more.
  explicit MedianBootstrap(std::span<const double> values);

  double median() const { return median_; }

  // Share of resamples whose median is at most `value`.
  double Cdf(double value) const;

  // The smallest median that at least this share of resamples does not exceed.
  double Quantile(double share) const;

 private:
  struct Atom {
    double value;
    double probability;
  };

  double median_;
  std::vector<Atom> atoms_;  // ascending
};

}  // namespace mixerbench::gate
