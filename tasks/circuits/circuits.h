// Bit circuits (parity, majority and their cumulative forms): options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "tasks/circuits/circuits_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::circuits {

struct CircuitsParams {
  Circuit circuit = Circuit::kParity;
  std::int64_t input_seq_len = 128;  // counts the end token; cum_parity has one token fewer
};

// Names, types and help of the options.
const Fields<CircuitsParams>& CircuitsFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const CircuitsParams& params, const std::string& where);

std::unique_ptr<Task> MakeCircuits(const CircuitsParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::circuits

template <>
struct mixerbench::EnumNames<mixerbench::tasks::circuits::Circuit> {
  using Circuit = tasks::circuits::Circuit;
  static constexpr std::pair<Circuit, std::string_view> kNames[] = {
      {Circuit::kParity, "parity"},
      {Circuit::kCumParity, "cum_parity"},
      {Circuit::kMajority, "majority"},
      {Circuit::kCumMajority, "cum_majority"}};
};
