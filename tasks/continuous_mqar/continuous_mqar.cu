// SPDX-License-Identifier: Apache-2.0
#include "tasks/continuous_mqar/continuous_mqar_sampler.h"
#include "tasks/device_generate.cuh"

namespace mixerbench::tasks::continuous_mqar {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("continuous_mqar", MakeDeviceGenerator<ContinuousMqarSampler>());
}

}  // namespace mixerbench::tasks::continuous_mqar
