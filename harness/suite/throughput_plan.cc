// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/throughput_plan.h"

#include <algorithm>

#include "harness/suite/step_count.h"
#include "harness/suite/train_config.h"

namespace mixerbench::harness {
namespace {

constexpr std::int64_t kMaxTimings = 100'000;

}  // namespace

bool ThroughputPlan::Measures(std::string_view phase) const {
  return std::find(phases.begin(), phases.end(), phase) != phases.end();
}

bool ThroughputPlan::MeasuresStepsAlone() const {
  return phases == std::vector<std::string>{"train_step"};
}

const io::Form& ThroughputForm() {
  static const io::Form form = io::ClosedForm(
      {{"batch_size", io::IntegerForm(1, kMaxBatchSize), "sequences of a call (8)"},
       {"num_samples", io::IntegerForm(3, kMaxTimings), "timings of each (20)"},
       {"phases",
        io::DistinctListForm(
            io::OneOfForm("phase", {"fwd", "fwd_bwd", "prefill", "decode", "train_step"}),
            "a list of phases: fwd, fwd_bwd, prefill, decode, train_step"),
        "what is timed (fwd and fwd_bwd)"},
       {"seq_len",
        io::DistinctListForm(io::IntegerForm(1, kMaxSeqLen),
                             "a list of lengths, such as [128, 512]"),
        "tokens of a sequence; every phase but train_step needs them"}});
  return form;
}

ThroughputPlan ParseThroughputPlan(const Value& value) {
  ThroughputForm().check(value, "/throughput");
  ThroughputPlan plan;
  if (const Value* v = value.Find("seq_len")) {
    for (const Value& length : v->as_array()) plan.seq_len.push_back(length.as_int());
  }
  if (const Value* v = value.Find("batch_size")) plan.batch_size = v->as_int();
  if (const Value* v = value.Find("num_samples")) plan.num_samples = v->as_int();
  plan.phases = {"fwd", "fwd_bwd"};
  if (const Value* v = value.Find("phases")) {
    plan.phases.clear();
    for (const Value& phase : v->as_array()) plan.phases.push_back(phase.as_string());
  }
  if (plan.seq_len.empty() && !plan.MeasuresStepsAlone()) {
    throw ConfigError("/throughput/seq_len", "missing; add it");
  }
  return plan;
}

Value ThroughputPlanToValue(const ThroughputPlan& plan) {
  Object value = {{"phases", Array(plan.phases.begin(), plan.phases.end())},
                  {"num_samples", plan.num_samples}};
  if (!plan.seq_len.empty()) {
    value["seq_len"] = Array(plan.seq_len.begin(), plan.seq_len.end());
    value["batch_size"] = plan.batch_size;
  }
  return value;
}

void CheckHasEffect(const ThroughputPlan& plan, const Value& value) {
  if (!plan.MeasuresStepsAlone()) return;
  for (const std::string key : {"seq_len", "batch_size"}) {
    if (value.Find(key)) {
      throw ConfigError("/throughput/" + key,
                        "has no effect: train_step has the task's length and train's batch_size");
    }
  }
}

}  // namespace mixerbench::harness
