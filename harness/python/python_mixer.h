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

// What stands in a cell's identity for the Python between this program and a class: the hash of
// that part of the package. Errors: as CallPython.
std::string PythonPackageCode();

// A model in which each `module` of one names its class alone, "python:Mean", and another class of
// that name "python:Mean#2": where its file lies and how that was written changes no result. `code`
// gets by these names what stands for the code in a cell's identity: the hash of its source files
// and the versions of what they import. Errors: as CallPython.
Value NamePythonModules(const Value& model, Object& code);

}  // namespace mixerbench::harness
