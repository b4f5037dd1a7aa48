// SPDX-License-Identifier: Apache-2.0
#include "models/taps.h"

#include <stdexcept>

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "tests/support/catch2.h"

namespace mixerbench::models {
namespace {

// [B=2,T=3,H=2]
at::Tensor Gate() { return at::arange(12, at::TensorOptions(at::kDouble)).view({2, 3, 2}); }

TEST_CASE("taps: records are float32 copies under the prefix") {
  Taps taps;
  taps.prefix = "layers.1.";
  at::Tensor gate = Gate();
  taps.Record("write_gate", gate);
  gate.zero_();
  const at::Tensor& recorded = taps.records().at("layers.1.write_gate");
  CHECK(recorded.scalar_type() == at::kFloat);
  CHECK(recorded.equal(Gate().to(at::kFloat)));
}

TEST_CASE("taps: an override puts the mean of the sequence at the masked positions") {
  Taps taps;
  CHECK(taps.OverriddenWriteGate(Gate()).equal(Gate()));
  at::Tensor mask = at::zeros({2, 3}, at::TensorOptions(at::kBool));
  mask[1][0] = true;
  taps.override_write_gate = mask;
  at::Tensor expected = Gate();
  expected[1][0] = Gate()[1].mean(0);  // of each head
  CHECK(taps.OverriddenWriteGate(Gate()).equal(expected));
}

TEST_CASE("taps: an overridden gate gets no gradient") {
  Taps taps;
  at::Tensor mask = at::zeros({2, 3}, at::TensorOptions(at::kBool));
  mask[1][0] = true;
  taps.override_write_gate = mask;
  const at::Tensor gate = Gate().requires_grad_(true);
  taps.OverriddenWriteGate(gate).sum().backward();
  CHECK(gate.grad()[1][0].sum().item<double>() == 0);
  CHECK(gate.grad().sum().item<double>() == 10);
}

TEST_CASE("taps: a mask of the wrong shape is refused") {
  Taps taps;
  taps.override_write_gate = at::zeros({2, 4}, at::TensorOptions(at::kBool));
  CHECK_THROWS_AS(taps.OverriddenWriteGate(Gate()), std::logic_error);
}

}  // namespace
}  // namespace mixerbench::models
