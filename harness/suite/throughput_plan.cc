// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/throughput_plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"
#include "io/read_value.h"

namespace mixerbench::harness {

bool ThroughputPlan::Measures(std::string_view phase) const {
  return std::find(phases.begin(), phases.end(), phase) != phases.end();
}

ThroughputPlan ParseThroughputPlan(const Value& value) {
  const std::string where = "/throughput";
  io::RequireKnownKeys(value, where, {"batch_size", "num_samples", "phases", "seq_len"});
  static const std::vector<std::string> kPhases = {"fwd", "fwd_bwd", "prefill", "decode",
                                                   "train_step"};
  ThroughputPlan plan;
  const Value& lengths = io::RequireMember(value, where, "seq_len");
  if (!lengths.is_array() || lengths.as_array().empty()) {
    throw ConfigError(where + "/seq_len", "expected a list of lengths, such as [128, 512]");
  }
  for (const Value& length : lengths.as_array()) {
    plan.seq_len.push_back(
        io::ReadInt(length, where + "/seq_len/" + std::to_string(plan.seq_len.size()), 1));
  }
  if (const Value* v = value.Find("batch_size")) {
    plan.batch_size = io::ReadInt(*v, where + "/batch_size", 1);
  }
  if (const Value* v = value.Find("num_samples")) {
    plan.num_samples = io::ReadInt(*v, where + "/num_samples", 3);
  }
  plan.phases = {"fwd", "fwd_bwd"};
  if (const Value* v = value.Find("phases")) {
    if (!v->is_array() || v->as_array().empty()) {
      throw ConfigError(where + "/phases",
                        "expected a list of phases: fwd, fwd_bwd, prefill, decode, train_step");
    }
    plan.phases.clear();
    for (const Value& phase : v->as_array()) {
      const std::string place = where + "/phases/" + std::to_string(plan.phases.size());
      const std::string name = io::ReadName(phase, place);
      if (std::find(kPhases.begin(), kPhases.end(), name) == kPhases.end()) {
        throw ConfigError(place, UnknownName("phase", name, kPhases));
      }
      plan.phases.push_back(name);
    }
  }
  return plan;
}

Value ThroughputPlanToValue(const ThroughputPlan& plan) {
  Array lengths(plan.seq_len.begin(), plan.seq_len.end());
  Array phases(plan.phases.begin(), plan.phases.end());
  return Object{{"seq_len", lengths},
                {"batch_size", plan.batch_size},
                {"phases", phases},
                {"num_samples", plan.num_samples}};
}

}  // namespace mixerbench::harness
