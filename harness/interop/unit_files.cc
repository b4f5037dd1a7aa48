// SPDX-License-Identifier: Apache-2.0
#include "harness/interop/unit_files.h"

#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/suggest.h"
#include "harness/device/device.h"
#include "harness/device/tensor_io.h"

namespace mixerbench::harness {

UnitNumerics ParseNumerics(const UnitRunOptions& options) {
  const at::Device device = ParseDevice(options.device);
  if (options.dtype == "tf32" && !device.is_cuda()) {
    throw ConfigError("--dtype tf32", "needs --device cuda");
  }
  SetNumerics(options.dtype == "tf32");
  if (options.dtype == "fp64") return {device, at::kDouble, at::kDouble};
  return {device, at::kFloat, options.dtype == "bf16" ? at::kBFloat16 : at::kFloat};
}

kernels::ExecutionPath ParsePath(const UnitRunOptions& options) {
  return options.path == "reference" ? kernels::ExecutionPath::kReference
                                     : kernels::ExecutionPath::kFast;
}

std::string ShapeText(at::IntArrayRef shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

UnitFile::UnitFile(const std::string& path) : path_(path), tensors_(LoadTensors(path)) {}

void UnitFile::Refuse(const std::string& what) const {
  throw Error(ExitCode::kBadInput, path_ + ": " + what);
}

const at::Tensor* UnitFile::Find(const std::string& name) {
  known_.insert(name);
  const auto found = tensors_.find(name);
  return found != tensors_.end() ? &found->second : nullptr;
}

const at::Tensor& UnitFile::Require(const std::string& name) {
  const at::Tensor* const tensor = Find(name);
  if (tensor == nullptr) Refuse("no tensor '" + name + "'; see --describe");
  return *tensor;
}

void UnitFile::RequireShape(const std::string& name, const at::Tensor& tensor,
                            at::IntArrayRef expected) const {
  if (tensor.sizes() == expected) return;
  Refuse("'" + name + "' has shape " + ShapeText(tensor.sizes()) + ", expected " +
         ShapeText(expected));
}

void UnitFile::RefuseOthers() const {
  for (const auto& [name, tensor] : tensors_) {
    if (known_.contains(name)) continue;
    Refuse(UnknownName("tensor", name, {known_.begin(), known_.end()}));
  }
}

void RequireOtherOutput(const UnitRunOptions& options) {
  std::error_code missing;
  if (!std::filesystem::equivalent(options.in, options.out, missing)) return;
  throw ConfigError("--out", options.out + " is the file of --in");
}

}  // namespace mixerbench::harness
