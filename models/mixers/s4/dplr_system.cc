// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/s4/dplr_system.h"

#include <algorithm>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/real.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

namespace mixerbench::models::s4 {
namespace {

// sum over a mode and its conjugate of conj(p_r) x: p [R,H,M], x [...,H,M] -> [...,H,R] real.
at::Tensor Project(const at::Tensor& p, const at::Tensor& x) {
  return at::real(at::einsum("rhm,...hm->...hr", {p.conj().resolve_conj(), x})) * 2;
}

// sum_r p_r y_r: y [...,H,R] real -> [...,H,M].
at::Tensor Combine(const at::Tensor& p, const at::Tensor& y) {
  return at::einsum("rhm,...hr->...hm", {p, y.to(p.scalar_type())});
}

// Of I + x, x [H,R,R] with R = 1 or 2.
at::Tensor InverseOfShifted(const at::Tensor& x) {
  const auto entry = [&](std::int64_t i, std::int64_t j) { return x.select(-2, i).select(-1, j); };
  const at::Tensor top = entry(0, 0) + 1;
  if (x.size(-1) == 1) return top.reciprocal().unsqueeze(-1).unsqueeze(-1);
  const at::Tensor bottom = entry(1, 1) + 1;
  const at::Tensor determinant = top * bottom - entry(0, 1) * entry(1, 0);
  return at::stack({at::stack({bottom, -entry(0, 1)}, -1), at::stack({-entry(1, 0), top}, -1)},
                   -2) /
         determinant.unsqueeze(-1).unsqueeze(-1);
}

at::Tensor Identity(const at::Tensor& matrix) {
  return at::eye(matrix.size(-1), matrix.options().requires_grad(false));
}

// y = 2 Re(read x) on real vectors.
at::Tensor ReadOnReal(const at::Tensor& read) { return ToReal(read.conj() * 2); }
at::Tensor ReadOfReal(const at::Tensor& read) { return ToComplex(read / 2).conj(); }

}  // namespace

LinearStep::LinearStep(const DplrSystem& system, at::ScalarType dtype) {
  const at::Tensor slope = 2 / system.step;
  const at::Tensor backward = (slope - system.rate).reciprocal();
  forward_ = (slope + system.rate).to(dtype);
  backward_ = backward.to(dtype);
  input_ = (system.input * 2).to(dtype);
  p_ = system.p.to(dtype);
  // [H,R,R]: row r, column s.
  const at::Tensor products =
      at::real(at::einsum("rhm,shm->hrs", {system.p.conj().resolve_conj(), system.p * backward})) *
      2;
  inverse_ = InverseOfShifted(products).to(c10::toRealValueType(dtype));
}

at::Tensor LinearStep::operator()(const at::Tensor& x, const at::Tensor& u) const {
  at::Tensor v = forward_ * x - Combine(p_, Project(p_, x));
  if (u.defined()) v = v + input_ * u.unsqueeze(-1);
  const at::Tensor projected = Project(p_, backward_ * v);  // [...,H,R]
  const at::Tensor solved = at::einsum("hrs,...hs->...hr", {inverse_, projected});
  return backward_ * (v - Combine(p_, solved));
}

at::Tensor InputOfState(const DplrSystem& system, const at::Tensor& state) {
  const at::Tensor change = system.rate * state - Combine(system.p, Project(system.p, state));
  return state / system.step + change / 2;
}

at::Tensor ToReal(const at::Tensor& x) { return at::cat({at::real(x), at::imag(x)}, -1); }

at::Tensor ToComplex(const at::Tensor& x) {
  const auto parts = x.chunk(2, -1);
  return at::complex(parts[0], parts[1]);
}

at::Tensor StepMatrix(const DplrSystem& system) {
  const std::int64_t modes = system.rate.size(1);
  const at::Tensor unit = at::eye(2 * modes, system.step.options().requires_grad(false));
  const at::Tensor basis =
      ToComplex(unit).unsqueeze(1).expand({-1, system.rate.size(0), -1});  // [2M,H,M]
  const LinearStep step(system, at::kComplexDouble);
  return ToReal(step(basis, {})).permute({1, 2, 0});  // images are columns
}

at::Tensor StepInput(const DplrSystem& system) {
  const LinearStep step(system, at::kComplexDouble);
  const at::Tensor ones = at::ones_like(system.step.select(1, 0));
  return ToReal(step(at::zeros_like(system.rate), ones));
}

at::Tensor MatrixPower(const at::Tensor& matrix, std::int64_t exponent) {
  at::Tensor result;
  at::Tensor square = matrix;
  for (std::int64_t rest = exponent; rest > 0; rest /= 2) {
    if (rest % 2 != 0) result = result.defined() ? at::bmm(result, square) : square;
    if (rest > 1) square = at::bmm(square, square);
  }
  return result;
}

at::Tensor Truncate(const DplrSystem& system, const at::Tensor& read, std::int64_t length) {
  const at::Tensor row = ReadOnReal(read).unsqueeze(1);  // [H,1,2M]
  const at::Tensor later = at::bmm(row, MatrixPower(StepMatrix(system), length));
  return ReadOfReal((row - later).squeeze(1));
}

at::Tensor Untruncate(const DplrSystem& system, const at::Tensor& read, std::int64_t length) {
  const at::Tensor power = MatrixPower(StepMatrix(system), length);
  const at::Tensor column = ReadOnReal(read).unsqueeze(-1);
  return ReadOfReal(at::linalg_solve((Identity(power) - power).mT(), column).squeeze(-1));
}

at::Tensor StateAfter(const DplrSystem& system, const at::Tensor& u, const at::Tensor& state) {
  const at::ScalarType dtype = u.scalar_type();
  const std::int64_t batch = u.size(0);
  const std::int64_t length = u.size(1);
  constexpr std::int64_t kMaxBlock = 64;
  // What the last inputs leave: columns Bbar, Abar Bbar, ... of as many as a block has tokens.
  const at::Tensor matrix = StepMatrix(system);
  at::Tensor columns = StepInput(system).unsqueeze(-1);  // [H,2M,1]
  at::Tensor power = matrix;                             // Abar^(number of columns)
  while (columns.size(-1) < std::min(length, kMaxBlock)) {
    columns = at::cat({columns, at::bmm(power, columns)}, -1);
    power = at::bmm(power, power);
  }
  const std::int64_t block = columns.size(-1);
  std::int64_t num_blocks = 1;
  while (num_blocks * block < length) num_blocks *= 2;
  // Zeros before the first token leave nothing.
  const at::Tensor padded =
      at::constant_pad_nd(u, {0, 0, num_blocks * block - length, 0}).permute({2, 0, 1});
  const at::Tensor latest_first = padded.reshape({padded.size(0), -1, block}).flip(-1);
  at::Tensor left = at::bmm(latest_first, columns.mT().to(dtype))
                        .view({padded.size(0), batch, num_blocks, -1});  // [H,B,n,2M]
  // Neighbouring blocks are one of twice the length.
  for (; num_blocks > 1; num_blocks /= 2) {
    const auto halves = left.unflatten(2, {num_blocks / 2, 2}).unbind(3);
    left = at::matmul(halves[0], power.mT().to(dtype).unsqueeze(1)) + halves[1];
    if (num_blocks > 2) power = at::bmm(power, power);
  }
  at::Tensor result = left.squeeze(2).transpose(0, 1);  // [B,H,2M]
  if (state.defined()) {
    const at::Tensor all = MatrixPower(matrix, length).to(dtype);
    const at::Tensor real_state = ToReal(state).to(dtype).transpose(0, 1);  // [H,B,2M]
    result = result + at::bmm(real_state, all.mT()).transpose(0, 1);
  }
  return ToComplex(result);
}

}  // namespace mixerbench::models::s4
