// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/seed_generator.h"

#include <utility>

#include <ATen/ops/empty.h>

#include "base/check.h"

namespace mixerbench::kernels {

SeedGenerator::SeedGenerator(at::Generator generator) : generator_(std::move(generator)) {}

SeedGenerator::SeedGenerator(at::Tensor seeds)
    : seeds_(std::move(seeds)), num_used_(std::make_shared<std::int64_t>(0)) {
  Require(seeds_.scalar_type() == at::kLong && seeds_.dim() == 1, "seeds are a row of int64");
}

at::Tensor SeedGenerator::Next(at::Device device) const {
  if (generator_) {
    return at::empty({1}, at::TensorOptions().dtype(at::kLong).device(device)).random_(*generator_);
  }
  Require(seeds_.device() == device, "seeds lie on the device of the masks");
  Require(*num_used_ < seeds_.size(0), "more masks than seeds");
  return seeds_.narrow(0, (*num_used_)++, 1);
}

}  // namespace mixerbench::kernels
