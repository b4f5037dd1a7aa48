// `mixer run` and `core run`: one unit on given tensors, so that anyone can hold it against another
// implementation, tensor by tensor.
//
// Names in files. Mixer in: x [B,T,D], param.<name>, optional state.<name>, grad.y [B,T,D].
// Mixer out: y, final_state.<name>, grad.x, grad.param.<name>, grad.state.<name>.
// Core in: the names of `describe core`, optional grad.<output>. Core out: outputs, grad.<input>.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.h"
#include "harness/options.h"
#include "harness/registries.h"

namespace mixerbench::harness {

ExitCode MixerRun(const UnitRunOptions& options, const Registries& registries);
ExitCode CoreRun(const UnitRunOptions& options, const Registries& registries);

}  // namespace mixerbench::harness
