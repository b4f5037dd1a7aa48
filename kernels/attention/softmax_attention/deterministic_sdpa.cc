// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/deterministic_sdpa.h"

#include <memory>
#include <optional>
#include <string>

#include <ATen/Context.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

namespace mixerbench::kernels::softmax_attention {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

// Deterministic algorithms without exceptions, while it lives.
class Demand {
 public:
  Demand() { at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false); }
  ~Demand() { at::globalContext().setDeterministicAlgorithms(was_demanded_, warned_only_); }
  Demand(const Demand&) = delete;
  Demand& operator=(const Demand&) = delete;

 private:
  bool was_demanded_ = at::globalContext().deterministicAlgorithms();
  bool warned_only_ = at::globalContext().deterministicAlgorithmsWarnOnly();
};

class Begin final : public torch::autograd::FunctionPreHook {
 public:
  explicit Begin(std::shared_ptr<std::optional<Demand>> demand) : demand_(std::move(demand)) {}

  variable_list operator()(const variable_list& grads) override {
    demand_->emplace();
    return grads;
  }

 private:
  std::shared_ptr<std::optional<Demand>> demand_;
};

class End final : public torch::autograd::FunctionPostHook {
 public:
  explicit End(std::shared_ptr<std::optional<Demand>> demand) : demand_(std::move(demand)) {}

  variable_list operator()(const variable_list& grads, const variable_list&) override {
    demand_->reset();
    return grads;
  }

 private:
  std::shared_ptr<std::optional<Demand>> demand_;
};

// The node of the attention itself; padding of heads to multiples of eight leaves others after it.
Node* FindAttention(Node* node) {
  constexpr int kMostNodesAfter = 4;
  for (int i = 0; node != nullptr && i <= kMostNodesAfter; ++i) {
    if (node->name().find("ScaledDotProduct") != std::string::npos) return node;
    node = node->num_outputs() == 0 ? nullptr : node->next_edge(0).function.get();
  }
  return nullptr;  // of plain products, which are deterministic
}

}  // namespace

at::Tensor DeterministicSdpa(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             double scale) {
  at::Tensor o;
  {
    const Demand demand;
    o = at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0,
                                         /*is_causal=*/true, scale);
  }
  Node* const node = o.requires_grad() ? FindAttention(o.grad_fn().get()) : nullptr;
  if (node == nullptr) return o;
  const auto demand = std::make_shared<std::optional<Demand>>();
  node->add_pre_hook(std::make_unique<Begin>(demand));
  node->add_post_hook(std::make_unique<End>(demand));
  return o;
}

}  // namespace mixerbench::kernels::softmax_attention
