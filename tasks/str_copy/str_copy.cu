// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/str_copy/str_copy_sampler.h"

namespace mixerbench::tasks::str_copy {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("str_copy", MakeDeviceGenerator<StrCopySampler>());
}

}  // namespace mixerbench::tasks::str_copy
