// Compositional MQAR: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/compositional_mqar/compositional_mqar_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::compositional_mqar {

struct CompositionalMqarParams {
  std::int64_t vocab_size = 8192;
  std::int64_t input_seq_len = 64;
  std::int64_t num_kv_pairs = 4;  // compound keys, and queries; a square number
  double power_a = 0.01;          // 1: uniform gaps; smaller: shorter gaps
  Noise noise = Noise::kRandom;   // presentation: not part of the sampling key
};

// Names, types and help of the options.
const Fields<CompositionalMqarParams>& CompositionalMqarFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const CompositionalMqarParams& params, const std::string& where);

std::unique_ptr<Task> MakeCompositionalMqar(const CompositionalMqarParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::compositional_mqar
