// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/torch_generator.h"

#include <utility>

namespace mixerbench::kernels {
namespace {

at::Generator& OfThread() {
  thread_local at::Generator generator;
  return generator;
}

}  // namespace

const at::Generator& TorchGenerator() { return OfThread(); }

TorchGeneratorScope::TorchGeneratorScope(at::Generator generator)
    : outer_(std::exchange(OfThread(), std::move(generator))) {}

TorchGeneratorScope::~TorchGeneratorScope() { OfThread() = std::move(outer_); }

}  // namespace mixerbench::kernels
