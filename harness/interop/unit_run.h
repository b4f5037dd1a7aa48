// `mixer run` and `core run`: one unit on given tensors, so that anyone can hold it against another
// implementation, tensor by tensor.
//
// Names in files. Mixer in: x [B,T,D], param.<name>, state.<name> (all of it or none: then the
// mixer starts as in training), value.<name> that it reads, rows [B,R], grad.y,
// grad.final_state.<name>. Mixer out: y, final_state.<name>, param.<name> that were drawn,
// loss.<name>, grad.x, grad.param.<name>, grad.state.<name>. Core in: the names of `describe core`,
// optional grad.<output>. Core out: outputs, grad.<input>.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.h"
#include "harness/interop/options.h"
#include "harness/suite/registries.h"

namespace mixerbench::harness {

ExitCode MixerRun(const UnitRunOptions& options, const Registries& registries);
ExitCode CoreRun(const UnitRunOptions& options, const Registries& registries);

// `mixer check`: the promises of models/mixer.h, each with what was found, on stdout. kNo when one
// is not kept.
ExitCode MixerCheck(const MixerCheckOptions& options, const Registries& registries);

}  // namespace mixerbench::harness
