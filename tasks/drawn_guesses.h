// What guessers score that look at the sample, estimated from samples of no data set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "tasks/task.h"

namespace mixerbench::tasks {

// Called with the inputs, a scored position and its label: whether the guess there is right.
using IsHit = std::function<bool(std::span<const std::int32_t> inputs, std::size_t position,
                                 std::int32_t label)>;

// The share of scored positions that are hits, with its standard error. `is_hit` sees the scored
// positions of each sample in order.
Baseline DrawnGuess(const Task& task, std::string name, const IsHit& is_hit);

// A guesser that associates nothing: it names the commonest token shown up to the scored position
// for which `is_candidate` holds; with `but_last` not the one that stands there.
Baseline CommonestShown(const Task& task, std::string name,
                        const std::function<bool(std::int32_t token)>& is_candidate,
                        bool but_last = false);

}  // namespace mixerbench::tasks
