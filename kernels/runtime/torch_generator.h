// The generator that stands for torch's own one of a GPU while code that is not ours draws from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>

namespace mixerbench::kernels {

// That of the innermost scope of this thread; undefined without one, and on the CPU.
const at::Generator& TorchGenerator();

// From now on, in this thread: `generator`, which a graph that is captured meanwhile must know.
class TorchGeneratorScope {
 public:
  explicit TorchGeneratorScope(at::Generator generator);
  ~TorchGeneratorScope();
  TorchGeneratorScope(const TorchGeneratorScope&) = delete;
  TorchGeneratorScope& operator=(const TorchGeneratorScope&) = delete;

 private:
  at::Generator outer_;
};

}  // namespace mixerbench::kernels
