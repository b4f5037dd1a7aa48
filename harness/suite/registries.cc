// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/registries.h"

namespace mixerbench::harness {

Registries::Registries() {
  tasks::RegisterTasks(tasks);
  tasks::RegisterDeviceGenerators(device_generators);
  kernels::RegisterCores(cores);
  models::RegisterMixers(mixers);
  models::RegisterBackbones(backbones);
}

}  // namespace mixerbench::harness
