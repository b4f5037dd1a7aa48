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

at::Tensor MaskOfOneToken() {
  at::Tensor mask = at::zeros({2, 3}, at::TensorOptions(at::kBool));
  mask[1][0] = true;
  return mask;
}

TEST_CASE("taps: records are float32 copies under the path of their scope") {
  TapRecorder recorder;
  const TapScope taps = TapScope(recorder).Child("layers.1").Child("inner");
  at::Tensor gate = Gate();
  taps.Record("write_gate", gate);
  gate.zero_();
  const at::Tensor& recorded = recorder.records.at("layers.1.inner.write_gate");
  CHECK(recorded.scalar_type() == at::kFloat);
  CHECK(recorded.equal(Gate().to(at::kFloat)));
}

TEST_CASE("taps: a scope without a recorder is off and so are its children") {
  const TapScope taps = TapScope().Child("layers.0");
  CHECK_FALSE(taps);
  CHECK_FALSE(taps.Wants("write_gate"));
  taps.Record("write_gate", Gate());
  CHECK(taps.WriteGate(Gate()).equal(Gate()));
}

TEST_CASE("taps: a recorder keeps what it wants") {
  TapRecorder recorder;
  recorder.wants = [](std::string_view path) { return path.ends_with("write_gate"); };
  const TapScope taps = TapScope(recorder).Child("layers.0");
  CHECK(taps.Wants("write_gate"));
  CHECK_FALSE(taps.Wants("log_decay"));
  taps.Record("write_gate", Gate());
  taps.Record("log_decay", Gate());
  CHECK(recorder.records.size() == 1);
}

TEST_CASE("taps: an override puts the mean of the sequence at the masked positions") {
  TapRecorder recorder;
  const TapScope taps(recorder);
  CHECK(taps.Overridden(Gate()).equal(Gate()));
  recorder.override_write_gate = MaskOfOneToken();
  at::Tensor expected = Gate();
  expected[1][0] = Gate()[1].mean(0);  // of each head
  CHECK(taps.WriteGate(Gate()).equal(expected));
  CHECK(recorder.records.at("write_gate").equal(expected.to(at::kFloat)));
}

TEST_CASE("taps: a recorder is told of the gates that it replaces, not of what is called so") {
  TapRecorder recorder;
  recorder.override_write_gate = MaskOfOneToken();
  TapScope(recorder).Record("write_gate", Gate());
  CHECK_FALSE(recorder.has_overridden);
  TapScope(recorder).Child("layers.0").Overridden(Gate());
  CHECK(recorder.has_overridden);
}

TEST_CASE("taps: an overridden gate gets no gradient") {
  TapRecorder recorder;
  recorder.override_write_gate = MaskOfOneToken();
  const at::Tensor gate = Gate().requires_grad_(true);
  TapScope(recorder).Overridden(gate).sum().backward();
  CHECK(gate.grad()[1][0].sum().item<double>() == 0);
  CHECK(gate.grad().sum().item<double>() == 10);
}

TEST_CASE("taps: a mask of the wrong shape is refused") {
  TapRecorder recorder;
  recorder.override_write_gate = at::zeros({2, 4}, at::TensorOptions(at::kBool));
  CHECK_THROWS_AS(TapScope(recorder).Overridden(Gate()), std::logic_error);
}

}  // namespace
}  // namespace mixerbench::models
