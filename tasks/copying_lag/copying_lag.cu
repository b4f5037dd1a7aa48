// SPDX-License-Identifier: Apache-2.0
#include "tasks/copying_lag/copying_lag_sampler.h"
#include "tasks/device_generate.cuh"

namespace mixerbench::tasks::copying_lag {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("copying_lag", MakeDeviceGenerator<CopyingLagSampler>());
}

}  // namespace mixerbench::tasks::copying_lag
