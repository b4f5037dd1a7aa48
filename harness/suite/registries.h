// Everything that can be named in a configuration, built once in `main`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/core.h"
#include "models/backbone.h"
#include "models/mixer.h"
#include "tasks/generate.h"
#include "tasks/task.h"

namespace mixerbench::harness {

struct Registries {
  Registries();
  tasks::TaskRegistry tasks{"task"};
  tasks::DeviceGeneratorRegistry device_generators{"device generator"};
  kernels::CoreRegistry cores{"core"};
  models::MixerRegistry mixers{"mixer"};
  models::BackboneRegistry backbones{"backbone"};
};

}  // namespace mixerbench::harness
