// The form of suites and collections as JSON Schema, for editors and for other programs that write
// them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/value.h"
#include "harness/suite/registries.h"

namespace mixerbench::harness {

// Both of draft 7. That of suites is made of what they are read by: the keys of the suite, the
// tasks, mixers (held ones too) and backbones of the registries with their options, those of the
// training, and the forms of the other sections. Every suite that this program
// reads is valid. The other way round a schema says less than the program, which also knows the
// rules between options and what a sweep makes of them.
Value ConfigSchema(const Registries& registries);
Value CollectionSchema();

}  // namespace mixerbench::harness
