// Forgetting MQAR: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/forgetting_mqar/forgetting_mqar_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::forgetting_mqar {

struct ForgettingMqarParams {
  std::int64_t vocab_size = 8192;
  std::int64_t input_seq_len = 64;
  std::int64_t num_kv_pairs = 8;  // keys, and queries
  std::int64_t num_updates = 4;   // keys that get a new value
  double power_a = 0.01;          // 1: uniform gaps; smaller: shorter gaps
  Noise noise = Noise::kRandom;   // presentation: not part of the sampling key
};

// Names, types and help of the options.
const Fields<ForgettingMqarParams>& ForgettingMqarFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const ForgettingMqarParams& params, const std::string& where);

std::unique_ptr<Task> MakeForgettingMqar(const ForgettingMqarParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::forgetting_mqar
