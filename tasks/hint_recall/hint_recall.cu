// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/hint_recall/hint_recall_sampler.h"

namespace mixerbench::tasks::hint_recall {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("hint_recall", MakeDeviceGenerator<HintRecallSampler>());
}

}  // namespace mixerbench::tasks::hint_recall
