// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/plan.h"

#include <algorithm>
#include <utility>

namespace mixerbench::kernels {

thread_local PlanRecorder* PlanRecorder::current_ = nullptr;

PlanRecorder::PlanRecorder() : outer_(current_) { current_ = this; }

PlanRecorder::~PlanRecorder() { current_ = outer_; }

PlanScope::PlanScope(std::string_view name) : recorder_(PlanRecorder::current_) {
  if (recorder_ == nullptr) return;
  outer_size_ = recorder_->scope_.size();
  if (outer_size_ > 0) recorder_->scope_ += ".";
  recorder_->scope_ += name;
}

PlanScope::~PlanScope() {
  if (recorder_ != nullptr) recorder_->scope_.resize(outer_size_);
}

bool RecordsPlans() { return PlanRecorder::current_ != nullptr; }

void RecordPlan(std::string_view function, std::string_view forward, std::string_view backward,
                std::string_view reason) {
  PlanRecorder* const recorder = PlanRecorder::current_;
  if (recorder == nullptr) return;
  PlanRecord record{recorder->scope_, std::string(function), std::string(forward),
                    std::string(backward), std::string(reason)};
  auto& records = recorder->records_;
  if (std::find(records.begin(), records.end(), record) == records.end()) {
    records.push_back(std::move(record));
  }
}

}  // namespace mixerbench::kernels
