// Where dropout takes its seeds from, one for each mask.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace mixerbench::kernels {

// Copies share what was handed out.
class SeedGenerator {
 public:
  // Draws from `generator`, which belongs to the device of the masks.
  // NOLINTNEXTLINE(google-explicit-constructor): a generator is one source of seeds.
  SeedGenerator(at::Generator generator);
  // Hands out the elements of `seeds` [N] int64 one after the other: work that is captured in a
  // graph finds other seeds there with every replay, and draws nothing itself.
  explicit SeedGenerator(at::Tensor seeds);

  // One int64 [1] on `device`. Errors: std::logic_error when seeds are used up or elsewhere.
  at::Tensor Next(at::Device device) const;

 private:
  std::optional<at::Generator> generator_ = std::nullopt;
  at::Tensor seeds_;  // undefined with a generator
  std::shared_ptr<std::int64_t> num_used_;
};

}  // namespace mixerbench::kernels
