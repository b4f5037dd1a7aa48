// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/mod_arith/mod_arith_sampler.h"

namespace mixerbench::tasks::mod_arith {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("mod_arith", MakeDeviceGenerator<ModArithSampler>());
}

}  // namespace mixerbench::tasks::mod_arith
