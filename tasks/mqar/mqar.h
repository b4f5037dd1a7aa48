// MQAR, multi-query associative recall: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/mqar/mqar_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::mqar {

struct MqarParams {
  std::int64_t vocab_size = 8192;
  std::int64_t input_seq_len = 64;
  std::int64_t num_kv_pairs = 8;  // pairs, and queries
  std::int64_t num_passes = 1;    // times the list of pairs is shown
  double power_a = 0.01;          // 1: uniform gaps; smaller: shorter gaps
  Noise noise = Noise::kRandom;   // presentation: not part of the sampling key
};

// Names, types and help of the options.
const Fields<MqarParams>& MqarFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const MqarParams& params, const std::string& where);

std::unique_ptr<Task> MakeMqar(const MqarParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::mqar
