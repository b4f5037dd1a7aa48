// SPDX-License-Identifier: Apache-2.0
#include "models/state.h"

#include "base/check.h"

namespace mixerbench::models {
namespace {

template <typename StateType, typename Visit>
void ForEachBelow(StateType& state, const std::string& prefix, const Visit& visit) {
  for (auto& [name, tensor] : state.tensors) visit(prefix + name, tensor);
  for (auto& [name, inner] : state.inner) ForEachBelow(inner, prefix + name + ".", visit);
}

}  // namespace

at::Tensor Find(const State* state, std::string_view name) {
  if (state == nullptr) return {};
  const auto found = state->tensors.find(name);
  Require(found != state->tensors.end(), "no '" + std::string(name) + "' in the state");
  return found->second.value;
}

const State* Inner(const State* state, std::string_view name) {
  if (state == nullptr) return nullptr;
  const auto found = state->inner.find(name);
  Require(found != state->inner.end(), "no inner state '" + std::string(name) + "'");
  return &found->second;
}

void ForEach(State& state, const std::function<void(const std::string&, StateTensor&)>& visit) {
  ForEachBelow(state, "", visit);
}

void ForEach(const State& state,
             const std::function<void(const std::string&, const StateTensor&)>& visit) {
  ForEachBelow(state, "", visit);
}

StateSize SizeOf(const State& state, std::int64_t more_tokens) {
  StateSize size;
  ForEach(state, [&](const std::string&, const StateTensor& tensor) {
    const at::Tensor& value = tensor.value;
    switch (tensor.kind) {
      case StateKind::kRecurrent:  // a complex number is two real ones
        size.recurrent += value.numel() * (value.is_complex() ? 2 : 1);
        return;
      case StateKind::kConvolution:
        size.conv += (value.size(1) + 1) * value.size(2);
        return;
      case StateKind::kTokenShift:
        size.conv += value.numel();
        return;
      case StateKind::kCache: {
        std::int64_t row = value.size(0);
        for (std::int64_t axis = 2; axis < value.dim(); ++axis) row *= value.size(axis);
        size.recurrent += row * (value.size(1) + more_tokens / tensor.tokens_per_row);
        return;
      }
      case StateKind::kPartial:
      case StateKind::kPosition:
        return;
    }
  });
  return size;
}

std::int64_t BytesOf(const State& state) {
  std::int64_t bytes = 0;
  ForEach(state, [&](const std::string&, const StateTensor& tensor) {
    bytes += static_cast<std::int64_t>(tensor.value.nbytes());
  });
  return bytes;
}

}  // namespace mixerbench::models
