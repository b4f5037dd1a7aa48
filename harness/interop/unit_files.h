// What `mixer run` and `core run` share: their numerics and checks of the tensors in a file. Every
// disagreement is an Error(kBadInput) that names the file and the tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include <ATen/core/Tensor.h>

#include "harness/interop/options.h"
#include "kernels/core.h"

namespace mixerbench::harness {

struct UnitNumerics {
  at::Device device;
  at::ScalarType parameters;  // fp32, or fp64 for fp64
  at::ScalarType activations;
};

// Also sets whether fp32 products run in tf32. Throws ConfigError.
UnitNumerics ParseNumerics(const UnitRunOptions& options);
kernels::ExecutionPath ParsePath(const UnitRunOptions& options);

// "[2, 70, 16]"
std::string ShapeText(at::IntArrayRef shape);

// The tensors of one file, with a note of which of them somebody asked for.
class UnitFile {
 public:
  // Throws for an unreadable file.
  explicit UnitFile(const std::string& path);

  [[noreturn]] void Refuse(const std::string& what) const;

  // nullptr when it is not there.
  const at::Tensor* Find(const std::string& name);
  const at::Tensor& Require(const std::string& name);
  // Refuses another shape than `expected`.
  void RequireShape(const std::string& name, const at::Tensor& tensor,
                    at::IntArrayRef expected) const;
  // Refuses what nobody asked for.
  void RefuseOthers() const;

 private:
  std::string path_;
  kernels::NamedTensors tensors_;
  std::set<std::string> known_;
};

// Throws ConfigError when options.out is the file that is read.
void RequireOtherOutput(const UnitRunOptions& options);

}  // namespace mixerbench::harness
