// The parts of a cell's name, and how they are written: "mqar/gla d_model=64,lr=0.003" has the
// mixer gla and, by key, the parts "64" and "0.003".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/value.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// The mixer of a cell's name, as MixerStyle::key.
std::string MixerKey(const std::string& cell_name);

// "d_model=64,lr=0.003" of a cell's name, by key.
std::map<std::string, std::string> PartsOf(const std::string& cell_name);
std::map<std::string, std::string> PartsOf(const GroupSummary& group);

// "64 tokens", "4 pairs", "d 64", "lr 1e-3", "noise zero".
std::string PartText(const std::string& key, const std::string& value);

// The parts of a group's name whose keys are in `keys`: "d 64, lr 1e-3".
std::string PartsText(const GroupSummary& group, const std::set<std::string>& keys);

// Keys of names with several values for one mixer, "it has none" being one.
std::set<std::string> VaryingKeys(const SweepReport& report);

// Parts of names that tell timings apart: keys with several values for one mixer, without those
// that a timing says itself (length, batch, type).
std::set<std::string> TimingKeys(const SweepReport& report);

// "64 tokens, 4 pairs" of a segment.
std::string SegmentText(const Object& axes, const char* between = ", ");

// Whether a key is a size of the task or of the model: "input_seq_len", "d_model".
bool IsSizeKey(const std::string& key);

// The order of keys in heads and titles: sizes, the rate, others by name.
bool KeyLess(const std::string& a, const std::string& b);

// Numbers as numbers, before texts.
bool ValueLess(const std::string& a, const std::string& b);

}  // namespace mixerbench::reports
