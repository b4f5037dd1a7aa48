// SPDX-License-Identifier: Apache-2.0
#include "harness/tensor_io.h"

#include <array>
#include <cstring>

#include <ATen/ops/empty.h>

#include "base/error.h"
#include "reports/atomic_file.h"

namespace mixerbench::harness {
namespace {

using reports::ElementType;

constexpr std::size_t kMaxTensorFileBytes = std::size_t{8} << 30;
constexpr std::array<std::pair<ElementType, at::ScalarType>, 10> kTypes = {{
    {ElementType::kF64, at::kDouble},
    {ElementType::kF32, at::kFloat},
    {ElementType::kF16, at::kHalf},
    {ElementType::kBF16, at::kBFloat16},
    {ElementType::kI64, at::kLong},
    {ElementType::kI32, at::kInt},
    {ElementType::kI16, at::kShort},
    {ElementType::kI8, at::kChar},
    {ElementType::kU8, at::kByte},
    {ElementType::kBool, at::kBool},
}};

}  // namespace

kernels::NamedTensors FromTensorFile(const reports::TensorFile& file) {
  kernels::NamedTensors tensors;
  for (const auto& [name, stored] : file.tensors) {
    for (const auto& [element, scalar] : kTypes) {
      if (element != stored.dtype) continue;
      at::Tensor tensor = at::empty(stored.shape, scalar);
      std::memcpy(tensor.data_ptr(), stored.bytes.data(), stored.bytes.size());
      tensors[name] = tensor;
    }
  }
  return tensors;
}

reports::TensorFile ToTensorFile(const kernels::NamedTensors& tensors) {
  reports::TensorFile file;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor host = tensor.detach().cpu().contiguous();
    for (const auto& [element, scalar] : kTypes) {
      if (scalar != host.scalar_type()) continue;
      file.tensors[name] = {
          element, host.sizes().vec(),
          std::string(static_cast<const char*>(host.const_data_ptr()), host.nbytes())};
    }
  }
  return file;
}

kernels::NamedTensors LoadTensors(const std::string& path) {
  return FromTensorFile(
      reports::ReadSafetensors(reports::ReadFile(path, kMaxTensorFileBytes), path));
}

void SaveTensors(const std::string& path, const kernels::NamedTensors& tensors) {
  reports::WriteFileAtomically(path, reports::WriteSafetensors(ToTensorFile(tensors)));
}

}  // namespace mixerbench::harness
