// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/head_tiles.h"

#include <algorithm>
#include <set>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>

#include "base/check.h"

namespace mixerbench::kernels {
namespace {

std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The smallest size of `range` that is `size` or more; 0: none.
std::int64_t SmallestFrom(const SizeRange& range, std::int64_t size) {
  std::int64_t smallest = 0;
  const auto consider = [&](std::int64_t candidate) {
    if (candidate >= size && (smallest == 0 || candidate < smallest)) smallest = candidate;
  };
  for (const std::int64_t value : range.values) consider(value);
  if (range.multiple_of > 0) {
    const std::int64_t multiple =
        CeilDivide(std::max(size, range.min), range.multiple_of) * range.multiple_of;
    if (range.max == 0 || multiple <= range.max) consider(multiple);
  }
  return smallest;
}

// Of a range that ends.
std::int64_t LargestOf(const SizeRange& range) {
  std::int64_t largest = 0;
  for (const std::int64_t value : range.values) largest = std::max(largest, value);
  if (range.multiple_of == 0) return largest;
  return std::max(largest, range.max / range.multiple_of * range.multiple_of);
}

bool HasDtype(const DevicePlan& plan, std::string_view dtype) {
  return std::find(plan.dtypes.begin(), plan.dtypes.end(), dtype) != plan.dtypes.end();
}

std::string DescribeAxis(std::string_view name, const AxisTiles& tiles, std::int64_t size) {
  if (tiles == AxisTiles{size, 1}) return {};
  std::string text = ", " + std::string(name);
  if (tiles.count == 1) return text + " padded to " + std::to_string(tiles.size);
  return text + " in " + std::to_string(tiles.count) + " tiles of " + std::to_string(tiles.size);
}

// "16, 32 or a multiple of 64 up to 128"
std::string Words(const SizeRange& range) {
  std::string text;
  for (const std::int64_t value : range.values) {
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  if (range.multiple_of == 0) return text;
  text +=
      (text.empty() ? "a multiple of " : " or a multiple of ") + std::to_string(range.multiple_of);
  return range.max > 0 ? text + " up to " + std::to_string(range.max) : text;
}

// Zeros after the channels of the last axis, up to `size`.
at::Tensor PadTo(const at::Tensor& x, std::int64_t size) {
  return x.size(-1) == size ? x : at::constant_pad_nd(x, {0, size - x.size(-1)});
}

// Moves tensors between heads and the heads that tiles are, [.., H, keys, values, ..].
class Tiler {
 public:
  explicit Tiler(const HeadTiles& tiles)
      : keys_(tiles.keys), values_(tiles.values), per_head_(keys_.count * values_.count) {}

  // [B,T,H,K] -> [B,T,H',K'].
  at::Tensor Keys(const at::Tensor& x) const {
    return Cut(x, keys_).unsqueeze(4).expand(Shape(x, keys_.size)).flatten(2, 4);
  }

  // [B,T,H,V] -> [B,T,H',V'].
  at::Tensor Values(const at::Tensor& x) const {
    return Cut(x, values_).unsqueeze(3).expand(Shape(x, values_.size)).flatten(2, 4);
  }

  // [B,T,H] -> [B,T,H']. Undefined stays so, here and below.
  at::Tensor Scalars(const at::Tensor& x) const {
    if (!x.defined() || per_head_ == 1) return x;
    return x.unsqueeze(3).expand({-1, -1, -1, per_head_}).flatten(2, 3);
  }

  // Either of the two kinds of log decays.
  at::Tensor Decays(const at::Tensor& x) const {
    return x.defined() && x.dim() == 4 ? Keys(x) : Scalars(x);
  }

  // [B,H,K,V] -> [B,H',K',V'].
  at::Tensor State(const at::Tensor& x) const {
    if (!x.defined()) return x;
    const std::int64_t more_keys = keys_.count * keys_.size - x.size(2);
    const std::int64_t more_values = values_.count * values_.size - x.size(3);
    return at::constant_pad_nd(x, {0, more_values, 0, more_keys})
        .unflatten(3, {values_.count, values_.size})
        .unflatten(2, {keys_.count, keys_.size})
        .transpose(3, 4)
        .flatten(1, 3);
  }

  // [B,T,H',V'] -> [B,T,H,V], the sum over the tiles of keys.
  at::Tensor WholeValues(const at::Tensor& x, std::int64_t head_v_dim) const {
    auto whole = x.unflatten(2, {-1, keys_.count, values_.count}).flatten(4, 5);
    whole = keys_.count == 1 ? whole.squeeze(3) : whole.sum(3);
    return whole.narrow(3, 0, head_v_dim);
  }

  // [B,H',K',V'] -> [B,H,K,V].
  at::Tensor WholeState(const at::Tensor& x, std::int64_t head_k_dim,
                        std::int64_t head_v_dim) const {
    if (!x.defined()) return x;
    return x.unflatten(1, {-1, keys_.count, values_.count})
        .transpose(3, 4)
        .flatten(4, 5)
        .flatten(2, 3)
        .narrow(2, 0, head_k_dim)
        .narrow(3, 0, head_v_dim);
  }

 private:
  // [B,T,H,D] -> [B,T,H,count,size].
  static at::Tensor Cut(const at::Tensor& x, const AxisTiles& tiles) {
    return PadTo(x, tiles.count * tiles.size).unflatten(3, {tiles.count, tiles.size});
  }

  std::vector<std::int64_t> Shape(const at::Tensor& x, std::int64_t size) const {
    return {x.size(0), x.size(1), x.size(2), keys_.count, values_.count, size};
  }

  AxisTiles keys_, values_;
  std::int64_t per_head_;
};

RecurrenceArgs Tiled(const RecurrenceArgs& args, const Tiler& tiler, double scale) {
  RecurrenceArgs tiled = args;
  tiled.q = tiler.Keys(args.q);
  tiled.k = tiler.Keys(args.k);
  tiled.v = tiler.Values(args.v);
  tiled.log_decay = tiler.Decays(args.log_decay);
  tiled.beta = tiler.Scalars(args.beta);
  tiled.initial_state = tiler.State(args.initial_state);
  tiled.scale = scale;
  return tiled;
}

}  // namespace

AxisTiles TileAxis(std::int64_t size, const SizeRange& range, KeyTiles tiles) {
  const std::int64_t padded = SmallestFrom(range, size);
  if (padded > 0) return {padded, 1};
  if (tiles == KeyTiles::kOne) return {size, 1};
  const std::int64_t count = CeilDivide(size, LargestOf(range));
  return {SmallestFrom(range, CeilDivide(size, count)), count};
}

HeadTiles TileHeads(const PreparedRecurrence& sizes, const std::vector<DevicePlan>& plans,
                    std::string_view dtype, KeyTiles key_tiles) {
  const auto plan = std::find_if(plans.rbegin(), plans.rend(),
                                 [&](const DevicePlan& x) { return HasDtype(x, dtype); });
  Require(plan != plans.rend(), "no plan of this dtype");
  return {.keys = TileAxis(sizes.head_k_dim, plan->head_k_dim, key_tiles),
          .values = TileAxis(sizes.head_v_dim, plan->head_v_dim, KeyTiles::kAny)};
}

std::vector<DevicePlan> WithTiledHeads(std::vector<DevicePlan> plans, KeyTiles key_tiles) {
  std::set<std::string> seen;
  for (auto plan = plans.rbegin(); plan != plans.rend(); ++plan) {
    const bool is_last = std::any_of(plan->dtypes.begin(), plan->dtypes.end(),
                                     [&](const auto& dtype) { return !seen.contains(dtype); });
    seen.insert(plan->dtypes.begin(), plan->dtypes.end());
    if (!is_last) continue;
    if (!plan->when.empty()) plan->when += "; ";
    plan->when += "other heads than K " + Words(plan->head_k_dim) + " and V " +
                  Words(plan->head_v_dim) + " are padded with zeros and cut in tiles";
    const std::int64_t max_keys = key_tiles == KeyTiles::kOne ? LargestOf(plan->head_k_dim) : 0;
    plan->head_k_dim = {.multiple_of = 1, .max = max_keys};
    plan->head_v_dim = {.multiple_of = 1};
  }
  return plans;
}

std::string Describe(const HeadTiles& tiles, const PreparedRecurrence& sizes) {
  return DescribeAxis("keys", tiles.keys, sizes.head_k_dim) +
         DescribeAxis("values", tiles.values, sizes.head_v_dim);
}

PreparedRecurrence SizesOfTiles(const PreparedRecurrence& sizes, const HeadTiles& tiles) {
  PreparedRecurrence tiled = sizes;
  tiled.num_heads = sizes.num_heads * tiles.keys.count * tiles.values.count;
  tiled.head_k_dim = tiles.keys.size;
  tiled.head_v_dim = tiles.values.size;
  return tiled;
}

DeviceAttempt<RecurrenceResult> RunInTiles(const RecurrenceArgs& args,
                                           const PreparedRecurrence& sizes, const HeadTiles& tiles,
                                           const TiledCore& core) {
  const std::string description = Describe(tiles, sizes);
  if (description.empty()) return core(args, sizes);
  const Tiler tiler(tiles);
  DeviceAttempt<RecurrenceResult> attempt;
  std::vector<PlanRecord> records;
  {
    const PlanRecorder recorder;
    attempt = core(Tiled(args, tiler, sizes.scale), SizesOfTiles(sizes, tiles));
    records = recorder.records();
  }
  for (const PlanRecord& record : records) {
    const bool has_backward = !record.backward.empty();
    RecordPlan(record.function, record.forward + description,
               has_backward ? record.backward + description : "", record.reason);
  }
  if (!attempt.result) return attempt;
  RecurrenceResult& result = *attempt.result;
  result.o = tiler.WholeValues(result.o, sizes.head_v_dim);
  result.final_state = tiler.WholeState(result.final_state, sizes.head_k_dim, sizes.head_v_dim);
  return attempt;
}

}  // namespace mixerbench::kernels
