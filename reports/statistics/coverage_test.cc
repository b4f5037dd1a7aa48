// How often intervals cover what they are of: every row of the tables in docs/STATISTICS.md is made
// again and has to stand there. The simulations are functions of nothing but this file.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <string>
#include <vector>

#include "io/atomic_file.h"
#include "reports/statistics/statistics.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

// Uniform numbers in [0, 1).
class Stream {
 public:
  explicit Stream(std::uint64_t seed) : seed_(seed) {}
  double Uniform() {
    constexpr std::size_t kSteps = std::size_t{1} << 30;
    return static_cast<double>(BootstrapIndex(seed_, draw_++, kSteps)) /
           static_cast<double>(kSteps);
  }
  bool Coin(double p) { return Uniform() < p; }

 private:
  std::uint64_t seed_;
  std::uint64_t draw_ = 0;
};

bool Covers(const Interval& ci, double truth) { return ci.low <= truth && truth <= ci.high; }

double StudentQuantile(std::size_t n) {
  return boost::math::quantile(boost::math::students_t(static_cast<double>(n - 1)), 0.975);
}

// What reports wrote up to schema 1.2: mean ± t s / sqrt(n), cut to [0, 1].
Interval StudentT(const std::vector<double>& values) {
  const double mean = Mean(values);
  const double half = StudentQuantile(values.size()) * StandardDeviation(values) /
                      std::sqrt(static_cast<double>(values.size()));
  return {.method = "t", .low = std::max(0.0, mean - half), .high = std::min(1.0, mean + half)};
}

// Likewise over samples: the linearised variance of the ratio with Student's t; Wilson's interval
// over samples where that is 0.
Interval ClusterRobust(const std::vector<Score>& samples) {
  const auto n = static_cast<double>(samples.size());
  double value = 0;
  double size = 0;
  for (const Score& sample : samples) {
    value += sample.value;
    size += sample.size;
  }
  const double p = value / size;
  double squares = 0;
  for (const Score& sample : samples) squares += std::pow(sample.value - p * sample.size, 2);
  if (squares < 1e-12) {
    return Wilson(std::lround(p * n), static_cast<std::int64_t>(samples.size()));
  }
  const double half = StudentQuantile(samples.size()) * std::sqrt(n / (n - 1) * squares) / size;
  return {
      .method = "cluster-robust", .low = std::max(0.0, p - half), .high = std::min(1.0, p + half)};
}

double Share(int count, int total) { return 100.0 * count / total; }

void CheckRow(const std::string& page, const std::string& row) {
  CAPTURE(row);
  CHECK(page.find("\n" + row + "\n") != page.npos);
}

struct SeedModel {
  std::string text;
  double mean;
  std::function<double(Stream&)> draw;
};

SeedModel Bimodal(double rate) {
  constexpr double kSolved = 0.998, kUnsolved = 0.2;
  return {fmt::format("solved at rate {}: 99.8 %, else 20 %", rate),
          rate * kSolved + (1 - rate) * kUnsolved,
          [=](Stream& stream) { return stream.Coin(rate) ? kSolved : kUnsolved; }};
}

SeedModel Even(const std::string& text, double low, double high) {
  return {text, (low + high) / 2,
          [=](Stream& stream) { return low + (high - low) * stream.Uniform(); }};
}

TEST_CASE("coverage: the mean over seeds") {
  constexpr int kRuns = 10'000;
  const std::string page = io::ReadFile("docs/STATISTICS.md");
  const std::vector<SeedModel> models = {Bimodal(0.5),
                                         Bimodal(0.8),
                                         Bimodal(0.95),
                                         Even("anything from 0 to 100 %", 0, 1),
                                         Even("57 to 63 %", 0.57, 0.63),
                                         Even("99.3 to 99.7 %", 0.993, 0.997)};
  for (std::size_t m = 0; m < models.size(); ++m) {
    for (const std::size_t n : {2, 5, 10, 20}) {
      Stream stream(100 * m + n);
      int num_t = 0;
      int num_beta = 0;
      double width = 0;
      for (int run = 0; run < kRuns; ++run) {
        std::vector<double> values;
        std::vector<Score> scores;
        for (std::size_t i = 0; i < n; ++i) {
          values.push_back(models[m].draw(stream));
          scores.push_back({values.back()});
        }
        num_t += Covers(StudentT(values), models[m].mean);
        const Interval beta = *ShareInterval(scores);
        num_beta += Covers(beta, models[m].mean);
        width += beta.high - beta.low;
      }
      CHECK(Share(num_beta, kRuns) >= 95);
      const std::string ours =
          n < 5 ? "none |"
                : fmt::format("{:.1f} | {:.1f}", Share(num_beta, kRuns), 100 * width / kRuns);
      CheckRow(page, fmt::format("| {} | {} | {:.1f} | {} |", models[m].text, n,
                                 Share(num_t, kRuns), ours));
    }
  }
}

// In percent, exactly: the chance that the interval of what `rate` gives holds `truth`.
double WilsonCoverage(std::int64_t n, double rate, double truth) {
  const boost::math::binomial successes(static_cast<double>(n), rate);
  double covered = 0;
  for (std::int64_t k = 0; k <= n; ++k) {
    if (Covers(Wilson(k, n), truth)) covered += boost::math::pdf(successes, k);
  }
  return 100 * covered;
}

// Over all rates, in percent. Between two neighbouring bounds the same numbers of successes cover,
// a run of them whose chance rises and falls once: it is least towards one of the two.
double LowestWilsonCoverage(std::int64_t n) {
  std::vector<double> bounds;
  for (std::int64_t k = 0; k <= n; ++k) {
    bounds.push_back(Wilson(k, n).low);
    bounds.push_back(Wilson(k, n).high);
  }
  std::sort(bounds.begin(), bounds.end());
  double lowest = 100;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const double between = (bounds[i] + bounds[i + 1]) / 2;
    for (const double bound : {bounds[i], bounds[i + 1]}) {
      lowest = std::min(lowest, WilsonCoverage(n, bound, between));
    }
  }
  return lowest;
}

TEST_CASE("coverage: the solve rate") {
  const std::string page = io::ReadFile("docs/STATISTICS.md");
  for (const std::int64_t n : {2, 5, 10, 20}) {
    std::string row = fmt::format("| {} |", n);
    for (const double rate : {0.5, 0.8, 0.9, 0.95, 0.99}) {
      row += fmt::format(" {:.1f} |", WilsonCoverage(n, rate, rate));
    }
    double mean = 0;
    constexpr int kRates = 1000;
    for (int i = 0; i < kRates; ++i) {
      const double rate = (i + 0.5) / kRates;
      mean += WilsonCoverage(n, rate, rate) / kRates;
    }
    CheckRow(page, row + fmt::format(" {:.1f} | {:.2f} |", mean, LowestWilsonCoverage(n)));
  }
}

constexpr double kPositions = 8;  // scored, of a sample

struct SampleModel {
  std::string text;
  double accuracy;
  std::function<double(Stream&)> num_right;
};

// With probability `alike` all positions of a sample share their fate: the correlation between two
// of them.
SampleModel Correlated(double accuracy, double alike) {
  return {fmt::format("{} % right, correlation {}", 100 * accuracy, alike), accuracy,
          [=](Stream& stream) {
            if (stream.Coin(alike)) return stream.Coin(accuracy) ? kPositions : 0.0;
            double num_right = 0;
            for (int i = 0; i < kPositions; ++i) num_right += stream.Coin(accuracy);
            return num_right;
          }};
}

SampleModel RareLosses() {
  return {"1 % of samples lose a position, 0.1 % all", 1 - 0.01 / kPositions - 0.001,
          [](Stream& stream) {
            const double u = stream.Uniform();
            return u < 0.001 ? 0.0 : u < 0.011 ? kPositions - 1 : kPositions;
          }};
}

TEST_CASE("coverage: the accuracy over samples") {
  constexpr int kRuns = 2'000;
  const std::string page = io::ReadFile("docs/STATISTICS.md");
  std::vector<SampleModel> models;
  for (const double accuracy : {0.7, 0.98, 0.998}) {
    for (const double alike : {0.0, 0.1, 0.5, 1.0}) models.push_back(Correlated(accuracy, alike));
  }
  models.push_back(RareLosses());
  for (std::size_t m = 0; m < models.size(); ++m) {
    for (const std::size_t n : {100, 1000}) {
      Stream stream(10'000 * (m + 1) + n);
      int num_robust = 0;
      int num_beta = 0;
      double robust_width = 0;
      double beta_width = 0;
      for (int run = 0; run < kRuns; ++run) {
        std::vector<Score> samples;
        for (std::size_t i = 0; i < n; ++i) {
          samples.push_back({models[m].num_right(stream), kPositions});
        }
        const Interval robust = ClusterRobust(samples);
        const Interval beta = *ShareInterval(samples);
        num_robust += Covers(robust, models[m].accuracy);
        num_beta += Covers(beta, models[m].accuracy);
        robust_width += robust.high - robust.low;
        beta_width += beta.high - beta.low;
      }
      // The nominal level within three standard errors of the simulation.
      CHECK(Share(num_beta, kRuns) >= 95 - 3 * 100 * std::sqrt(0.05 * 0.95 / kRuns));
      CheckRow(page, fmt::format("| {} | {} | {:.1f} | {:.2f} | {:.1f} | {:.2f} |", models[m].text,
                                 n, Share(num_robust, kRuns), 100 * robust_width / kRuns,
                                 Share(num_beta, kRuns), 100 * beta_width / kRuns));
    }
  }
}

}  // namespace
}  // namespace mixerbench::reports
