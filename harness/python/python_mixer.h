// The mixer `python`: a torch.nn.Module that the user names. Its page: docs/PYTHON.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/value.h"
#include "models/mixer.h"

namespace mixerbench::harness {

inline constexpr char kPythonMixer[] = "python";

// {"name": ...} of a mixer's name, {"name": "python", "module": ...} of FILE.py:Class.
Object NameMixer(const std::string& text);

// Adds it. It has no configuration without `module`, and needs Python around this program.
void RegisterPythonMixer(models::MixerRegistry& registry);

// Of a configuration of it, what stands for the code behind `module` in a cell's identity:
// {module: the hash of its source files and the versions of what they import}. Errors: as
// CallPython.
Object DescribePythonCode(const Value& config);

}  // namespace mixerbench::harness
