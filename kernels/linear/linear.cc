// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/linear.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"
#include "kernels/device/dispatch.h"
#include "kernels/device/hopper_cuda.h"
#include "kernels/device/launch.h"
#include "kernels/layout/columns.h"
#include "kernels/linear/column_sum_cuda.h"
#include "kernels/linear/linear_backward_cuda.h"
#include "kernels/linear/linear_forward_cuda.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels {
namespace {

constexpr std::string_view kCublasPlan = "cublas";  // a product for the output, and each gradient

// Why the gradients do not leave their products in fp32: the layer is at::linear then.
std::string Refusal(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  std::string reason = DeviceRefusal(x);
  if (!reason.empty()) return reason;
  if (x.scalar_type() == at::kBFloat16 && weight.scalar_type() == at::kFloat &&
      (!bias.defined() || bias.scalar_type() == at::kFloat)) {
    return {};
  }
  return "for bf16 inputs and fp32 weights";
}

// The weight or bias in bf16, with zeros after its last row up to padded_rows, which `copy` (of
// ShadowWeights) has unless it is undefined.
at::Tensor ToShadow(const at::Tensor& parameter, const at::Tensor& copy, std::int64_t padded_rows) {
  if (copy.defined()) return copy.narrow(0, 0, padded_rows);
  const std::int64_t rows = parameter.size(0);
  if (rows == padded_rows) return parameter.to(at::kBFloat16);
  std::vector<std::int64_t> shape = parameter.sizes().vec();
  shape[0] = padded_rows;
  const at::Tensor padded = at::empty(shape, parameter.options().dtype(at::kBFloat16));
  padded.narrow(0, 0, rows).copy_(parameter);
  padded.narrow(0, rows, shape[0] - rows).zero_();
  return padded;
}

// Whether a kernel can copy tiles of the matrix. Rows of an expanded one are in the same place.
bool HasTiles(const at::Tensor& matrix) {
  return HasAlignedRows(matrix) && matrix.stride(0) >= matrix.size(1);
}

// sum[j] = sum over i of x[i,j], in fp32.
void ColumnSum(const at::Tensor& x, const at::Tensor& sum) {
  const int parts = ColumnSumPartials(x.size(0));
  const at::Tensor partials = at::empty({parts, x.size(1)}, sum.options());
  OnDeviceOf(x, "ColumnSum", [&](CUstream_st* stream) {
    return LaunchColumnSum({.num_rows = x.size(0),
                            .width = static_cast<int>(x.size(1)),
                            .x = RowsOf(x),
                            .partials = MutableFloatsOf(partials),
                            .sum = MutableFloatsOf(sum)},
                           stream);
  });
}

LinearForwardSizes ForwardSizes(const at::Tensor& x, const at::Tensor& weight) {
  return {.num_rows = x.size(0),
          .in = static_cast<int>(x.size(1)),
          .out = static_cast<int>(weight.size(0))};
}

// Whether a kernel of this folder forms the product.
bool FormsProduct(const at::Tensor& x, const at::Tensor& weight) {
  return LinearForwardSupports(ForwardSizes(x, weight)) && IsHopper(x.get_device()) &&
         HasTiles(x) && HasTiles(weight);
}

// x weight^T + bias [N,out] of x [N,in], weight [out,in] and bias [out], which may be undefined.
at::Tensor Product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!FormsProduct(x, weight)) {
    return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
  }
  const LinearForwardSizes sizes = ForwardSizes(x, weight);
  const at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
  OnDeviceOf(x, "Linear", [&](CUstream_st* stream) {
    return LaunchLinearForward(
        {.sizes = sizes,
         .x = RowsOf(x),
         .weight = RowsOf(weight),
         .bias = RowsOf(bias, static_cast<std::int64_t>(x.element_size())).data,
         .y = MutableRowsOf(y)},
        stream);
  });
  return y;
}

// Neighbouring blocks of columns that one product forms. Its matrix ends in padding, whose columns
// belong to the rows of the weight after the run's: the next run's, or zeros. Nobody reads them,
// and their gradient is zero.
struct Run {
  std::int64_t first;               // row of the weight
  std::vector<std::int64_t> sizes;  // of the blocks
  bool scored;

  std::int64_t size() const { return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}); }
  std::int64_t padded() const { return PaddedWidth(size()); }
  at::Tensor Of(const at::Tensor& parameter) const { return parameter.narrow(0, first, padded()); }
};

using Runs = std::vector<Run>;

Runs RunsOf(const std::vector<ColumnBlock>& blocks, bool apart) {
  Runs runs;
  std::int64_t first = 0;
  for (const ColumnBlock& block : blocks) {
    const bool scored = apart && block.scored;
    if (runs.empty() || runs.back().scored != scored) runs.push_back({first, {}, scored});
    runs.back().sizes.push_back(block.size);
    first += block.size;
  }
  return runs;
}

// Saved for the backward pass.
enum Saved { kX, kScored, kWeight, kPositions, kInverse, kNumSaved };

// Of all rows of x or of those chosen.
struct InputGradient {
  at::Tensor values = {};  // undefined until a run has a gradient
  bool is_formed = false;  // values have been written
};

// Whether one kernel forms the gradients for an input and a weight as they are, and a gradient of
// `out` columns that has tiles.
bool FormsGradients(const at::Tensor& x, const at::Tensor& weight, std::int64_t out,
                    bool has_bias) {
  return LinearBackwardSupports({.num_rows = x.size(0),
                                 .in = static_cast<int>(x.size(1)),
                                 .out = static_cast<int>(out),
                                 .has_bias = has_bias}) &&
         IsHopper(x.get_device()) && HasTiles(x) && HasTiles(weight);
}

// One kernel for the gradients of x [N,in], weight [out,in] and, if defined, bias. False when it
// does not take these tensors: nothing has been written then.
bool FormGradientsInOnePass(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& d_y,
                            const at::Tensor& d_x, const at::Tensor& d_weight,
                            const at::Tensor& d_bias) {
  const LinearBackwardSizes sizes = {.num_rows = x.size(0),
                                     .in = static_cast<int>(x.size(1)),
                                     .out = static_cast<int>(d_y.size(1)),
                                     .has_bias = d_bias.defined()};
  if (!FormsGradients(x, weight, d_y.size(1), d_bias.defined()) || !HasTiles(d_y) ||
      !HasTiles(d_x)) {
    return false;
  }
  const at::Tensor scratch = at::empty({LinearBackwardScratch(sizes)}, d_weight.options());
  OnDeviceOf(x, "Linear backward", [&](CUstream_st* stream) {
    return LaunchLinearBackward({.sizes = sizes,
                                 .x = RowsOf(x),
                                 .weight = RowsOf(weight),
                                 .d_y = RowsOf(d_y),
                                 .d_x = MutableRowsOf(d_x),
                                 .d_weight = MutableFloatsOf(d_weight),
                                 .d_bias = MutableFloatsOf(d_bias),
                                 .scratch = MutableFloatsOf(scratch)},
                                stream);
  });
  return true;
}

// A product for the gradient of the input, added to what other runs have left there.
void AddInputGradient(const at::Tensor& d_y, const at::Tensor& weight, InputGradient& d_x) {
  if (d_x.is_formed) {
    d_x.values.addmm_(d_y, weight);
  } else {
    at::mm_out(d_x.values, d_y, weight);
  }
  d_x.is_formed = true;
}

// Each run overwrites what the padding of the one before left in its rows. A run whose gradients
// are products of their own sums the bias first, while part of d_y is cached; the gradient of x,
// which is read next, comes last.
std::vector<at::Tensor> Backward(const BackwardArgs& args, const Runs& runs, std::int64_t out) {
  std::vector<at::Tensor> d_y;
  for (const at::Tensor& grad : args.grads) d_y.push_back(AlignedRows(grad));
  const at::Tensor& weight = args.saved[kWeight];
  const auto floats = weight.options().dtype(at::kFloat);
  at::Tensor d_weight;
  at::Tensor d_bias;
  if (args.wanted[1]) d_weight = at::empty(weight.sizes(), floats);
  if (args.wanted[2]) d_bias = at::empty({weight.size(0)}, floats);
  InputGradient d_x;
  InputGradient d_scored;
  std::vector<std::size_t> remaining;  // runs whose part of the input's gradient is still to come
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const at::Tensor& x = args.saved[runs[i].scored ? kScored : kX];
    at::Tensor weight_rows;
    at::Tensor bias_rows;
    if (d_weight.defined()) weight_rows = runs[i].Of(d_weight);
    if (d_bias.defined()) bias_rows = runs[i].Of(d_bias);
    if (!d_y[i].defined()) {
      if (d_bias.defined()) bias_rows.zero_();
      if (d_weight.defined()) weight_rows.zero_();
      continue;
    }
    if (args.wanted[0]) {
      InputGradient& d_input = runs[i].scored ? d_scored : d_x;
      if (!d_input.values.defined()) {
        d_input.values =
            runs[i].scored ? at::empty(x.sizes(), d_y[i].options()) : EmptyTogether({x})[0];
      }
      if (!d_input.is_formed && d_weight.defined() &&
          FormGradientsInOnePass(x, runs[i].Of(weight), d_y[i], d_input.values, weight_rows,
                                 bias_rows)) {
        d_input.is_formed = true;
        continue;
      }
      remaining.push_back(i);
    }
    if (d_bias.defined()) ColumnSum(d_y[i], bias_rows);
    if (d_weight.defined()) at::mm_out(weight_rows, d_y[i].t(), x, at::kFloat);
  }
  for (const std::size_t i : remaining) {
    AddInputGradient(d_y[i], runs[i].Of(weight), runs[i].scored ? d_scored : d_x);
  }
  std::vector<at::Tensor> gradients(3);
  if (args.wanted[0]) {
    if (!d_x.values.defined()) d_x.values = at::zeros_like(args.saved[kX]);
    if (d_scored.values.defined()) {
      AddRows(d_x.values, d_scored.values, {args.saved[kPositions], args.saved[kInverse]});
    }
    gradients[0] = d_x.values;
  }
  if (d_weight.defined()) gradients[1] = d_weight.narrow(0, 0, out);
  if (d_bias.defined()) gradients[2] = d_bias.narrow(0, 0, out);
  return gradients;
}

// The fast path on x [N,in]: a matrix [N, padded()] for each run, [M, padded()] for those at rows.
std::vector<at::Tensor> Products(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, const ShadowWeights& narrow,
                                 const Runs& runs, const ScoredPositions* scored) {
  std::int64_t padded_rows = 0;
  for (const Run& run : runs) padded_rows = std::max(padded_rows, run.first + run.padded());
  const bool has_scored =
      std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.scored; });
  std::vector<at::Tensor> saved(kNumSaved);
  std::vector<at::Tensor> products;
  const bool needs_backward = NeedsBackward({x, weight, bias});
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::NoGradGuard no_grad;
    saved[kX] = x;
    saved[kWeight] = ToShadow(weight, narrow.weight, padded_rows);
    if (has_scored) {
      saved[kScored] = GatherRows(x, *scored);
      saved[kPositions] = scored->positions;
      saved[kInverse] = scored->inverse;
    }
    at::Tensor shadow_bias;
    if (bias.defined()) shadow_bias = ToShadow(bias, narrow.bias, padded_rows);
    for (const Run& run : runs) {
      const at::Tensor& input = saved[run.scored ? kScored : kX];
      const at::Tensor weight_rows = run.Of(saved[kWeight]);
      at::Tensor bias_rows;
      if (bias.defined()) bias_rows = run.Of(shadow_bias);
      if (RecordsPlans()) {
        const std::string_view backward =
            FormsGradients(input, weight_rows, run.padded(), bias.defined()) ? kFusedPlan
                                                                             : kCublasPlan;
        RecordPlan("linear", FormsProduct(input, weight_rows) ? kFusedPlan : kCublasPlan,
                   needs_backward ? backward : std::string_view());
      }
      products.push_back(Product(input, weight_rows, bias_rows));
    }
  }
  SetBackward(
      "Linear", {x, weight, bias}, products, saved,
      [runs, out = weight.size(0)](const BackwardArgs& args) { return Backward(args, runs, out); });
  return products;
}

// LinearColumns on the GPU, with the blocks at rows formed `apart` or for all rows.
std::vector<at::Tensor> FastColumns(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias, const ShadowWeights& narrow,
                                    const std::vector<ColumnBlock>& blocks,
                                    const ScoredPositions* scored, bool apart) {
  const Runs runs = RunsOf(blocks, apart);
  const auto products = Products(x.reshape({-1, x.size(-1)}), weight, bias, narrow, runs, scored);
  std::vector<at::Tensor> columns;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<std::int64_t> shape = x.sizes().vec();
    if (runs[i].scored) shape = {products[i].size(0), 0};
    shape.back() = runs[i].padded();
    const auto split = SplitColumns(products[i].view(shape), runs[i].sizes);
    columns.insert(columns.end(), split.begin(), split.end());
  }
  return columns;
}

}  // namespace

bool FormsScoredApart(std::int64_t num_rows, std::int64_t num_scored, std::int64_t columns) {
  // What the products of all rows would write and read in vain costs more than the launches of the
  // small ones: on an H200 both take about 10 us here.
  constexpr std::int64_t kWorthwhile = std::int64_t{1} << 22;
  return 4 * num_scored <= num_rows && (num_rows - num_scored) * columns >= kWorthwhile;
}

std::vector<at::Tensor> LinearColumns(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias,
                                      const std::vector<ColumnBlock>& blocks,
                                      const ScoredPositions* scored, ExecutionPath path,
                                      const ShadowWeights& narrow) {
  std::vector<std::int64_t> sizes;
  std::int64_t out = 0;
  std::int64_t out_scored = 0;
  for (const ColumnBlock& block : blocks) {
    sizes.push_back(block.size);
    out += block.size;
    if (block.scored) out_scored += block.size;
  }
  Require(
      weight.dim() == 2 && x.dim() >= 1 && x.size(-1) == weight.size(1) && weight.size(0) == out,
      "linear: x is [..., in], the weight [out,in], the blocks have out columns");
  std::vector<at::Tensor> columns;
  bool apart = false;
  const std::string refusal = Refusal(x, weight, bias);
  if (path == ExecutionPath::kReference || !refusal.empty()) {
    RecordDispatch("linear", path, refusal, {x, weight, bias});
    const at::ScalarType dtype = x.scalar_type();
    std::optional<at::Tensor> same_bias;
    if (bias.defined()) same_bias = bias.to(dtype);
    columns = SplitColumns(at::linear(x, weight.to(dtype), same_bias), sizes, path);
  } else {
    apart = scored != nullptr &&
            FormsScoredApart(x.numel() / x.size(-1), scored->positions.size(0), out_scored);
    columns = FastColumns(x, weight, bias, narrow, blocks, scored, apart);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (scored != nullptr && blocks[i].scored && !apart) {
      columns[i] = GatherRows(columns[i], *scored, path);
    }
  }
  return columns;
}

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  ExecutionPath path, const ShadowWeights& narrow) {
  return LinearColumns(x, weight, bias, {weight.size(0)}, /*scored=*/nullptr, path, narrow).front();
}

}  // namespace mixerbench::kernels
