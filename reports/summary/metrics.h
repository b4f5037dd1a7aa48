// What is measured, in words: every metric of a result or a report with its unit and where it
// stands in the JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace mixerbench::reports {

struct Metric {
  std::string_view name;
  std::string_view unit;     // "share": of 1
  std::string_view path;     // in report.json, lists passed over: "cells.time.wall_s"
  std::string_view meaning;  // one line
};

// docs/REPORT_SCHEMA.md defines them; docs/STATISTICS.md has their intervals.
inline constexpr std::array kMetrics = {
    Metric{"accuracy", "share", "cells.accuracy_by_length.accuracy",
           "scored tokens that are predicted right"},
    Metric{"accuracy_per_example", "share", "cells.accuracy_by_length.accuracy_per_example",
           "mean over samples of the share of their scored tokens that are right"},
    Metric{"accuracy_macro", "share", "cells.accuracy_by_length.accuracy_macro",
           "mean over classes of the share of their tokens that are right"},
    Metric{"accuracy_macro_batched", "share", "cells.accuracy_by_length.accuracy_macro_batched",
           "accuracy_macro of each 128 samples, averaged"},
    Metric{"sequence_accuracy", "share", "cells.accuracy_by_length.sequence_accuracy",
           "samples with every scored token right"},
    Metric{"nll", "nats", "cells.accuracy_by_length.nll",
           "mean cross-entropy of the scored tokens"},
    Metric{"train_loss", "nats", "cells.learning_curve.train_loss",
           "mean training loss since the last point of the curve"},
    Metric{"validation_accuracy", "share", "cells.learning_curve.validation_accuracy",
           "accuracy on the validation split at a point of the curve"},
    Metric{"steps_to_threshold", "steps", "cells.steps_to_threshold.steps",
           "optimiser steps until validation reached the threshold; censored if never"},
    Metric{"solve_rate", "share", "groups.aggregate.solve_rate.k",
           "seeds that reached the threshold"},
    Metric{"effective_length", "tokens", "groups.aggregate.effective_length.value",
           "longest input up to which every tested one is answered, at least 0.9 by its interval"},
    Metric{"tokens_per_second", "1/s", "cells.throughput.tokens_per_second",
           "tokens of a batch over its median time"},
    Metric{"median", "ms", "cells.throughput.median", "median time of a phase at one shape"},
    Metric{"peak_memory_bytes", "bytes", "cells.throughput.peak_memory_bytes",
           "most memory that a timed phase held"},
    Metric{"num_parameters", "count", "cells.model_facts.num_parameters",
           "trained numbers of the model"},
    Metric{"state_bytes", "bytes", "cells.model_facts.state_bytes.measured",
           "tensors that a decoding step of one sequence carries"},
    Metric{"wall_s", "s", "cells.time.wall_s", "time that a cell took"},
    Metric{"tokens_seen", "tokens", "cells.time.tokens_seen", "tokens that a cell trained on"}};

}  // namespace mixerbench::reports
