// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "kernels/linear_attention/gsa/gsa.h"
#include "kernels/linear_attention/recurrence.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels::gsa {
namespace {

// Gates and states.
void RequireFullPrecision(const at::Tensor& x, const at::Tensor& q, const std::string& name) {
  Require(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble,
          name + " must be float32 or float64");
  Require(x.device() == q.device(), name + " is not on the device of q");
}

at::Tensor InitialState(const at::Tensor& given, at::IntArrayRef shape, const GsaArgs& args,
                        const Prepared& sizes) {
  if (given.defined()) return given.to(sizes.compute_dtype);
  return at::zeros(shape, args.q.options().dtype(sizes.compute_dtype));
}

}  // namespace

Prepared Prepare(const GsaArgs& args) {
  const RecurrenceArgs reads{
      .q = args.q, .k = args.k, .v = args.v, .scale = args.scale, .chunk_size = args.chunk_size};
  const auto common = kernels::Prepare(reads, DecayShape::kVector, /*has_beta=*/false);
  Prepared p{.batch_size = common.batch_size,
             .seq_len = common.seq_len,
             .num_heads = common.num_heads,
             .num_slots = args.slot_writes.defined() ? args.slot_writes.size(-1) : 0,
             .head_k_dim = common.head_k_dim,
             .head_v_dim = common.head_v_dim,
             .compute_dtype = common.compute_dtype,
             .scale = common.scale};
  Require(p.num_slots >= 1, "slot_writes must be [B,T,H,M] with at least one slot");
  RequireShape(args.slot_writes, {p.batch_size, p.seq_len, p.num_heads, p.num_slots},
               "slot_writes");
  RequireFullPrecision(args.slot_writes, args.q, "slot_writes");
  if (args.log_decay.defined()) {
    RequireShape(args.log_decay, {p.batch_size, p.seq_len, p.num_heads, p.num_slots}, "log_decay");
    RequireFullPrecision(args.log_decay, args.q, "log_decay");
  }
  if (args.initial_keys.defined()) {
    RequireShape(args.initial_keys, {p.batch_size, p.num_heads, p.head_k_dim, p.num_slots},
                 "initial_keys");
    RequireFullPrecision(args.initial_keys, args.q, "initial_keys");
  }
  if (args.initial_values.defined()) {
    RequireShape(args.initial_values, {p.batch_size, p.num_heads, p.num_slots, p.head_v_dim},
                 "initial_values");
    RequireFullPrecision(args.initial_values, args.q, "initial_values");
  }
  return p;
}

at::Tensor InitialKeys(const GsaArgs& args, const Prepared& sizes) {
  return InitialState(args.initial_keys,
                      {sizes.batch_size, sizes.num_heads, sizes.head_k_dim, sizes.num_slots}, args,
                      sizes);
}

at::Tensor InitialValues(const GsaArgs& args, const Prepared& sizes) {
  return InitialState(args.initial_values,
                      {sizes.batch_size, sizes.num_heads, sizes.num_slots, sizes.head_v_dim}, args,
                      sizes);
}

}  // namespace mixerbench::kernels::gsa
