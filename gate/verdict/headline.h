// A question about learning that is judged: one number per pair of seeds, looked at as pairs come.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gate/statistics/multiple.h"
#include "gate/verdict/comparison.h"
#include "gate/verdict/pairing.h"

namespace mixerbench::gate {

// What the first pairs say.
struct Evidence {
  Tested loss;                    // of no loss
  bool is_beyond_margin = false;  // the loss seen
  bool passes = false;            // a loss as large as the margin would have shown
  bool improves = false;
  bool is_suspicious = false;  // better than can be believed
};

// The level of one look, alone and divided among all headlines.
struct Level {
  double one = 0;
  double shared = 0;
  bool is_last_look = false;
  std::vector<Tested> others = {};  // headlines of the look; known when a headline is described
};

class Headline {
 public:
  virtual ~Headline() = default;

  // Of the first `num_pairs` pairs.
  virtual Evidence Look(std::int64_t num_pairs, const Level& level) const = 0;

  // Effect, interval, test and what could have been seen, into `row`; for one look or for display.
  virtual void Describe(std::int64_t num_pairs, const Level& level, Row& row) const = 0;

  std::int64_t num_pairs = 0;
  Row row;  // without verdict yet
};

using Headlines = std::vector<std::unique_ptr<Headline>>;

// Each is judged at the level of the settings. The accuracy of what is solved is a family of its
// own, since it scatters little: where it is lost that shows, and no test of the others is harder.
struct Families {
  Headlines learning;
  Headlines when_solved;
};

// Share of A/A differences of accuracy (one standard deviation) for a task; 0 where none is known.
using AccuracyNoise = std::map<std::string, double>;

// What there is to judge about one training, by how its base fares: solve rate, steps and the
// accuracy of what is solved where most seeds solve it, accuracy where none does. What cannot be
// judged becomes a row of `rows`.
void AddHeadlines(const Experiment& experiment, const GateSettings& settings,
                  const AccuracyNoise& noise, Families& families, std::vector<Row>& rows);

// Looks at the headlines of a family together, Holm's method over them at every look, and gives
// each its verdict. A headline stops at its first one.
void JudgeHeadlines(const GateSettings& settings, Headlines& headlines);

}  // namespace mixerbench::gate
