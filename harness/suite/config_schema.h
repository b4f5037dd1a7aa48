// The form of suites as JSON Schema, for editors and for other programs that write them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/value.h"
#include "harness/suite/registries.h"

namespace mixerbench::harness {

// Draft 7, made of what suites are read by: the keys of the suite, the tasks, mixers and backbones
// of the registries with their options, and those of the training. Every suite that this program
// reads is valid. The other way round a schema says less than the program, which also knows the
// rules between options and what a sweep makes of them; options of mixers inside mixers are open.
Value ConfigSchema(const Registries& registries);

}  // namespace mixerbench::harness
