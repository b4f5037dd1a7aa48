// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/group_swap/group_swap_sampler.h"

namespace mixerbench::tasks::group_swap {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("group_swap", MakeDeviceGenerator<GroupSwapSampler>());
}

}  // namespace mixerbench::tasks::group_swap
