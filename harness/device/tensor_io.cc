// SPDX-License-Identifier: Apache-2.0
#include "harness/device/tensor_io.h"

#include <array>
#include <cstring>

#include <ATen/ops/empty.h>

#include "base/error.h"
#include "io/atomic_file.h"

namespace mixerbench::harness {
namespace {

using io::ElementType;

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

kernels::NamedTensors FromTensorFile(const io::TensorFile& file) {
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

io::TensorFile ToTensorFile(const kernels::NamedTensors& tensors) {
  io::TensorFile file;
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
  return FromTensorFile(io::ReadSafetensors(io::ReadFile(path, kMaxTensorFileBytes), path));
}

void SaveTensors(const std::string& path, const kernels::NamedTensors& tensors) {
  io::WriteFileAtomically(path, io::WriteSafetensors(ToTensorFile(tensors)));
}

}  // namespace mixerbench::harness
