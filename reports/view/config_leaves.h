// The values of a config by their paths, to see in what configs differ.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "base/value.h"

namespace mixerbench::reports {

// By dotted path, as text: "task.test.input_seq_len": "64". Members of a list share their path and
// are joined, each text once: "64/128".
using Leaves = std::map<std::string, std::string>;

Leaves LeavesOf(const Value& config);

// The value at the first path that ends in `key`, the options of the mixer left out; empty where
// there is none.
std::string LeafText(const Leaves& leaves, const std::string& key);

// Whether parts of a dotted path that follow each other are `key`: "sequence_mixer" of
// "model.sequence_mixer.name".
bool HasPart(const std::string& path, const std::string& key);

// A member at a dotted path of a config, as text; empty when it is not there.
std::string ConfigText(const Value& config, const std::string& path);

// The test segments, or the train ones, of a config.
std::vector<Object> SegmentsOf(const Value& config, const char* split);

// The numbers that segments have under a name, in their order; those without are passed over.
std::vector<double> NumbersOf(const std::vector<Object>& segments, const std::string& name);

}  // namespace mixerbench::reports
