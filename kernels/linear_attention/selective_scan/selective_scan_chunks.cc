// The selective scan chunk by chunk: one multiply-add a token for the states, everything else for
// all tokens of a chunk at once.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/selective_scan/prepare.h"
#include "kernels/linear_attention/selective_scan/selective_scan.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels {
namespace selective_scan {
namespace {

// Elements of a tensor of all states of a chunk, which is shortened for it: 64 MB in fp32.
constexpr std::int64_t kMaxChunkElements = std::int64_t{1} << 24;

std::int64_t ChunkLength(const SelectiveScanArgs& args, const PreparedScan& sizes) {
  const std::int64_t states = sizes.batch_size * sizes.num_channels * sizes.state_size;
  return std::clamp<std::int64_t>(kMaxChunkElements / states, 1, args.chunk_size);
}

// The tokens of one chunk, time first: L tokens of it.
class Chunk {
 public:
  Chunk(const SelectiveScanArgs& args, const PreparedScan& sizes, const at::Tensor& A,
        std::int64_t first, std::int64_t count)
      : args_(args), sizes_(sizes), first_(first), count_(count) {
    u_ = Load(args.u);
    step_ = Softplus(args.delta_bias.defined()
                         ? Load(args.delta) + args.delta_bias.to(sizes.compute_dtype)
                         : Load(args.delta));
    B_ = Load(args.B);
    C_ = Load(args.C);
    decay_ = (step_.unsqueeze(-1) * A).exp_();
  }

  // h of all tokens [L,B,D,N] after the state that enters [B,D,N].
  at::Tensor States(const at::Tensor& entering) const {
    at::Tensor states = (ByGroup(step_ * u_).unsqueeze(-1) * B_.unsqueeze(-2)).flatten(2, 3);
    for (std::int64_t t = 0; t < count_; ++t) {
      states.select(0, t).addcmul_(decay_.select(0, t),
                                   t == 0 ? entering : states.select(0, t - 1));
    }
    return states;
  }

  // y_t = C_t h_t + D u_t, [L,B,D].
  at::Tensor Read(const at::Tensor& states) const {
    at::Tensor y = at::matmul(ByGroup(states), C_.unsqueeze(-1)).squeeze(-1).flatten(2, 3);
    if (args_.D.defined()) y = y + args_.D.to(sizes_.compute_dtype) * u_;
    return y;
  }

  // The part of x [B,T,...] in the compute dtype, [L,B,...] and dense.
  at::Tensor Load(const at::Tensor& x) const {
    return Part(x).to(sizes_.compute_dtype).contiguous();
  }
  // That part of x itself.
  at::Tensor Part(const at::Tensor& x) const { return x.narrow(1, first_, count_).transpose(0, 1); }

  // Channels as [G,D/G].
  at::Tensor ByGroup(const at::Tensor& x) const {
    return x.unflatten(2, {sizes_.num_groups, sizes_.channels_per_group()});
  }

  const at::Tensor& u() const { return u_; }
  const at::Tensor& step() const { return step_; }
  const at::Tensor& B() const { return B_; }
  const at::Tensor& C() const { return C_; }
  const at::Tensor& decay() const { return decay_; }

 private:
  const SelectiveScanArgs& args_;
  const PreparedScan& sizes_;
  std::int64_t first_, count_;
  at::Tensor u_, step_;  // [L,B,D]
  at::Tensor B_, C_;     // [L,B,G,N]
  at::Tensor decay_;     // exp(step A) [L,B,D,N]
};

at::Tensor NegativeA(const SelectiveScanArgs& args, const PreparedScan& sizes) {
  return -at::exp(args.A_log.to(sizes.compute_dtype));
}

struct Forward {
  SelectiveScanResult result;
  std::vector<at::Tensor> entering;  // the state before each chunk, [B,D,N]
};

Forward RunForward(const SelectiveScanArgs& args, const PreparedScan& sizes) {
  const at::Tensor A = NegativeA(args, sizes);
  const std::int64_t length = ChunkLength(args, sizes);
  Forward forward;
  at::Tensor state = InitialState(args, sizes);
  at::Tensor o = at::empty({sizes.batch_size, sizes.seq_len, sizes.num_channels}, args.u.options());
  for (std::int64_t first = 0; first < sizes.seq_len; first += length) {
    const Chunk chunk(args, sizes, A, first, std::min(length, sizes.seq_len - first));
    forward.entering.push_back(state);
    const at::Tensor states = chunk.States(state);
    state = states.select(0, states.size(0) - 1).clone();
    at::Tensor y = chunk.Read(states);
    if (args.z.defined()) {
      const at::Tensor z = chunk.Load(args.z);
      y.mul_(z).mul_(at::sigmoid(z));
    }
    chunk.Part(o).copy_(y);
  }
  forward.result = {.o = std::move(o), .final_state = std::move(state)};
  return forward;
}

// Gradients by the names of the arguments.
struct Gradients {
  at::Tensor u, delta, A_log, B, C, D, delta_bias, z;
  at::Tensor carry;  // of the state that enters the chunk at hand, [B,D,N]

  Gradients(const SelectiveScanArgs& args, const PreparedScan& sizes,
            const at::Tensor& d_final_state) {
    const auto dense = [](const at::Tensor& x) { return at::empty(x.sizes(), x.options()); };
    const auto sum = args.u.options().dtype(sizes.compute_dtype);
    u = dense(args.u);
    delta = dense(args.delta);
    B = dense(args.B);
    C = dense(args.C);
    A_log = at::zeros({sizes.num_channels, sizes.state_size}, sum);
    D = at::zeros({sizes.num_channels}, sum);
    delta_bias = at::zeros({sizes.num_channels}, sum);
    if (args.z.defined()) z = dense(args.z);
    carry = d_final_state.defined()
                ? d_final_state.to(sizes.compute_dtype).clone()
                : at::zeros({sizes.batch_size, sizes.num_channels, sizes.state_size}, sum);
  }

  std::vector<at::Tensor> InOrder(const SelectiveScanArgs& args) const {
    const auto like = [](const at::Tensor& gradient, const at::Tensor& input) {
      return input.defined() ? gradient.to(input.scalar_type()) : at::Tensor();
    };
    return {u,
            delta,
            like(A_log, args.A_log),
            B,
            C,
            like(D, args.D),
            like(delta_bias, args.delta_bias),
            z,
            like(carry, args.initial_state)};
  }
};

// One chunk of the backward pass (selective_scan.md); its forward values are formed again.
void AddChunk(const SelectiveScanArgs& args, const Chunk& chunk, const at::Tensor& A,
              const at::Tensor& entering, const at::Tensor& d_o, Gradients& d) {
  const at::Tensor states = chunk.States(entering);
  const std::int64_t count = states.size(0);
  at::Tensor d_y = chunk.Load(d_o);
  if (args.z.defined()) {
    const at::Tensor z = chunk.Load(args.z);
    const at::Tensor sigmoid = at::sigmoid(z);
    const at::Tensor slope = sigmoid * (1 + z * (1 - sigmoid));
    chunk.Part(d.z).copy_(d_y * chunk.Read(states) * slope);
    d_y = d_y * z * sigmoid;
  }

  // g_t, the gradient of h_t.
  at::Tensor g = (chunk.ByGroup(d_y).unsqueeze(-1) * chunk.C().unsqueeze(-2)).flatten(2, 3);
  g.select(0, count - 1).add_(d.carry);
  for (std::int64_t t = count - 2; t >= 0; --t) {
    g.select(0, t).addcmul_(chunk.decay().select(0, t + 1), g.select(0, t + 1));
  }
  d.carry = chunk.decay().select(0, 0) * g.select(0, 0);

  const at::Tensor write = chunk.step() * chunk.u();
  const auto sum_channels = [&](const at::Tensor& weights, const at::Tensor& x) {  // [L,B,G,N]
    return at::matmul(chunk.ByGroup(weights).unsqueeze(-2), chunk.ByGroup(x)).squeeze(-2);
  };
  chunk.Part(d.C).copy_(sum_channels(d_y, states));
  chunk.Part(d.B).copy_(sum_channels(write, g));
  const at::Tensor d_write =
      at::matmul(chunk.ByGroup(g), chunk.B().unsqueeze(-1)).squeeze(-1).flatten(2, 3);

  at::Tensor d_exponent = g.mul_(chunk.decay());  // g_t exp(step_t A) h_{t-1}
  d_exponent.select(0, 0).mul_(entering);
  d_exponent.narrow(0, 1, count - 1).mul_(states.narrow(0, 0, count - 1));
  const at::Tensor d_step = chunk.u() * d_write + (d_exponent * A).sum(-1);
  d.A_log.add_((d_exponent * chunk.step().unsqueeze(-1)).sum(at::IntArrayRef{0, 1}).mul_(A));

  at::Tensor d_u = chunk.step() * d_write;
  if (args.D.defined()) {
    d_u.add_(d_y * args.D.to(d_y.scalar_type()));
    d.D.add_((d_y * chunk.u()).sum(at::IntArrayRef{0, 1}));
  }
  chunk.Part(d.u).copy_(d_u);
  // sigmoid(x) = 1 - exp(-softplus(x))
  const at::Tensor d_delta = d_step * -at::expm1(-chunk.step());
  chunk.Part(d.delta).copy_(d_delta);
  d.delta_bias.add_(d_delta.sum(at::IntArrayRef{0, 1}));
}

// saved: the inputs, then the state before each chunk.
std::vector<at::Tensor> RunBackward(const BackwardArgs& backward, std::int64_t chunk_size) {
  const auto& saved = backward.saved;
  const SelectiveScanArgs args{.u = saved[0],
                               .delta = saved[1],
                               .A_log = saved[2],
                               .B = saved[3],
                               .C = saved[4],
                               .D = saved[5],
                               .delta_bias = saved[6],
                               .z = saved[7],
                               .initial_state = saved[8],
                               .chunk_size = chunk_size};
  constexpr std::size_t kNumInputs = 9;
  const PreparedScan sizes = Prepare(args);
  const at::Tensor A = NegativeA(args, sizes);
  const std::int64_t length = ChunkLength(args, sizes);
  const at::Tensor d_o = backward.grads[0].defined() ? backward.grads[0] : at::zeros_like(args.u);
  Gradients d(args, sizes, backward.grads[1]);
  for (std::size_t n = saved.size() - kNumInputs; n-- > 0;) {
    const std::int64_t first = static_cast<std::int64_t>(n) * length;
    const Chunk chunk(args, sizes, A, first, std::min(length, sizes.seq_len - first));
    AddChunk(args, chunk, A, saved[kNumInputs + n], d_o, d);
  }
  return d.InOrder(args);
}

}  // namespace
}  // namespace selective_scan

SelectiveScanResult ChunkSelectiveScan(const SelectiveScanArgs& args) {
  const auto sizes = selective_scan::Prepare(args);
  const auto inputs = selective_scan::InputsOf(args);
  selective_scan::Forward forward;
  {
    const at::NoGradGuard no_grad;
    forward = selective_scan::RunForward(args, sizes);
  }
  auto saved = inputs;
  saved.insert(saved.end(), forward.entering.begin(), forward.entering.end());
  SetBackward("selective_scan", inputs, {forward.result.o, forward.result.final_state}, saved,
              [chunk_size = args.chunk_size](const BackwardArgs& backward) {
                return selective_scan::RunBackward(backward, chunk_size);
              });
  return forward.result;
}

}  // namespace mixerbench::kernels
