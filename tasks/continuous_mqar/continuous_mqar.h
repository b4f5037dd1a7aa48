// Continuous (stacked) MQAR: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/continuous_mqar/continuous_mqar_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::continuous_mqar {

struct ContinuousMqarParams {
  std::int64_t num_embeddings = 8192;  // rows of the embedding table: keys, then values
  std::int64_t num_kv_pairs = 8;       // pairs, and queries
  std::int64_t num_passes = 1;         // times all pairs are shown, each in an order of its own
  bool per_sequence_mapping = true;    // false: every sample has the same pairs
  std::int64_t map_seed = 12345;       // which pairs then; not part of the sampling key
};

// Names, types and help of the options.
const Fields<ContinuousMqarParams>& ContinuousMqarFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const ContinuousMqarParams& params, const std::string& where);

std::unique_ptr<Task> MakeContinuousMqar(const ContinuousMqarParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::continuous_mqar
