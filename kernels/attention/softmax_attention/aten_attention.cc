// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/aten_attention.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/attention/softmax_attention/decay_sums.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels::softmax_attention {
namespace {

// Scores that are held at once, unless those of one query of each head are more: 64 MiB in fp32.
constexpr std::int64_t kMaxScores = std::int64_t{1} << 24;

// Weights that the backward pass finds instead of forming them again, 128 MiB in fp32: all of a
// training step at 256 tokens. To read them is a fifth of the bytes of scores, mask and softmax.
constexpr std::int64_t kMaxKeptWeights = 2 * kMaxScores;

// Queries of a tile with a window, unless the window is longer: the keys of a tile are those of its
// queries and a window before them.
constexpr std::int64_t kMinWindowTile = 128;

// One call in the compute dtype, laid out for batched products: R = B Hk sequences of keys, G =
// H/Hk query heads for each, so that [R,G,...] is [B,H,...].
struct Problem {
  Prepared sizes;
  std::int64_t window = 0;
  bool has_rows = false;
  at::Tensor q;          // [R,G,T,K], scaled
  at::Tensor k;          // [R,S,K]
  at::Tensor v;          // [R,S,V]
  at::Tensor positions;  // [T], with rows [B,1,R]: where the queries stand
  // The sums of log decays in two parts, whose differences are as exact as those of the sums in
  // fp64: [B,H,S]. Undefined: no decay; the fine part also for fp64.
  at::Tensor coarse_decay;
  at::Tensor fine_decay;
  at::Tensor decay_of_queries;  // [B,H,T]: of the coarse part
  at::Tensor slopes;            // [H,1,1]
  at::Tensor sinks;             // [H,1,1]
  at::Tensor dropout;           // [B,H,T,S]
};

// Queries first..first+count-1 and the keys first_key..first_key+num_keys-1, all that they see.
struct Tile {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t first_key = 0;
  std::int64_t num_keys = 0;
};

std::vector<Tile> CutQueries(const Problem& p) {
  const std::int64_t num_keys = p.sizes.num_keys;
  const bool has_window = p.window > 0 && p.window < num_keys && !p.has_rows;
  const std::int64_t span = std::max(p.window, kMinWindowTile);
  const std::int64_t keys_per_query = has_window ? std::min(2 * span, num_keys) : num_keys;
  const std::int64_t scores_per_query = p.sizes.batch_size * p.sizes.num_heads * keys_per_query;
  std::int64_t per_tile = std::max<std::int64_t>(1, kMaxScores / scores_per_query);
  if (has_window) per_tile = std::min(per_tile, span);

  std::vector<Tile> tiles;
  for (std::int64_t first = 0; first < p.sizes.num_queries; first += per_tile) {
    Tile tile{.first = first, .count = std::min(per_tile, p.sizes.num_queries - first)};
    if (p.has_rows) {  // any of them may be the last token
      tile.num_keys = num_keys;
    } else {
      const std::int64_t position = num_keys - p.sizes.num_queries + first;
      if (has_window) tile.first_key = std::max<std::int64_t>(0, position - p.window + 1);
      tile.num_keys = position + tile.count - tile.first_key;
    }
    tiles.push_back(tile);
  }
  return tiles;
}

enum Saved { kQ, kK, kV, kLogDecay, kSinks, kSlopes, kPositions, kDropout, kNumSaved };

void SetDecay(Problem& p, const at::Tensor& log_decay) {
  const auto sums = SumLogDecay(log_decay);
  if (p.sizes.compute_dtype == at::kDouble) {
    p.coarse_decay = sums;
  } else {
    auto parts = Split(sums, p.sizes.compute_dtype);
    p.coarse_decay = std::move(parts.coarse);
    p.fine_decay = std::move(parts.fine);
  }
  p.decay_of_queries =
      p.has_rows
          ? p.coarse_decay.gather(2, p.positions.expand({-1, p.sizes.num_heads, -1}))
          : p.coarse_decay.narrow(2, p.sizes.num_keys - p.sizes.num_queries, p.sizes.num_queries);
}

// [B,T,H,D] -> [B Hk, T, D] dense.
at::Tensor ByHeads(const at::Tensor& x, at::ScalarType dtype) {
  return x.transpose(1, 2).to(dtype).contiguous().flatten(0, 1);
}

Problem Lay(const std::vector<at::Tensor>& saved, const Prepared& sizes, std::int64_t window) {
  Problem p;
  p.sizes = sizes;
  p.window = window;
  p.has_rows = saved[kPositions].dim() == 2;
  const std::int64_t group_size = sizes.num_heads / sizes.num_kv_heads;
  p.q = ByHeads(saved[kQ], sizes.compute_dtype).mul(sizes.scale).unflatten(0, {-1, group_size});
  p.k = ByHeads(saved[kK], sizes.compute_dtype);
  p.v = ByHeads(saved[kV], sizes.compute_dtype);
  p.positions = p.has_rows ? saved[kPositions].unsqueeze(1) : saved[kPositions];
  if (saved[kLogDecay].defined()) SetDecay(p, saved[kLogDecay]);
  if (saved[kSlopes].defined()) p.slopes = saved[kSlopes].view({-1, 1, 1});
  if (saved[kSinks].defined()) p.sinks = saved[kSinks].view({-1, 1, 1});
  p.dropout = saved[kDropout];
  return p;
}

// Queries of a tile of x [R,G,T,D]: [R, G count, D].
at::Tensor QueriesOf(const at::Tensor& x, const Tile& tile) {
  return x.narrow(2, tile.first, tile.count).flatten(1, 2);
}

// Keys of a tile of x [R,S,D].
at::Tensor KeysOf(const at::Tensor& x, const Tile& tile) {
  return x.narrow(1, tile.first_key, tile.num_keys);
}

at::Tensor Scores(const Problem& p, const Tile& tile) {
  auto scores = at::bmm(QueriesOf(p.q, tile), KeysOf(p.k, tile).mT())
                    .view({p.sizes.batch_size, p.sizes.num_heads, tile.count, tile.num_keys});
  const auto positions = p.positions.narrow(-1, tile.first, tile.count).unsqueeze(-1);
  const auto keys = at::arange(tile.first_key, tile.first_key + tile.num_keys, positions.options());
  if (p.coarse_decay.defined()) {
    const auto of_keys = [&](const at::Tensor& x) {
      return x.narrow(2, tile.first_key, tile.num_keys).unsqueeze(2);
    };
    // First the difference, then the sum. What is fine of the query is the same for all its keys.
    scores.add_(p.decay_of_queries.narrow(2, tile.first, tile.count).unsqueeze(-1) -
                of_keys(p.coarse_decay));
    if (p.fine_decay.defined()) scores.sub_(of_keys(p.fine_decay));
  }
  if (p.slopes.defined()) {
    scores.sub_((positions - keys).to(scores.scalar_type()) * p.slopes);
  }
  const bool sees_all = tile.count == 1 && !p.has_rows;
  if (!sees_all) {
    scores.masked_fill_(HiddenKeys(positions, keys, p.window),
                        -std::numeric_limits<double>::infinity());
  }
  return scores;
}

struct Weights {
  at::Tensor of_keys;  // [B,H,count,N]
  at::Tensor of_sink;  // [B,H,count,1]; undefined without sinks
};

Weights FormWeights(const Problem& p, const Tile& tile) {
  const auto scores = Scores(p, tile);
  Weights weights{.of_keys = at::softmax(scores, -1), .of_sink = {}};
  if (p.sinks.defined()) {
    const auto excess = at::logsumexp(scores, {-1}, /*keepdim=*/true) - p.sinks;
    weights.of_sink = at::sigmoid(-excess);
    weights.of_keys.mul_(at::sigmoid(excess));
  }
  return weights;
}

// The factors of a tile's weights; undefined without dropout.
at::Tensor DropoutOf(const Problem& p, const Tile& tile) {
  if (!p.dropout.defined()) return {};
  return p.dropout.narrow(2, tile.first, tile.count).narrow(3, tile.first_key, tile.num_keys);
}

// [B,H,count,N] as the products take it: [R, G count, N].
at::Tensor Flat(const at::Tensor& x, const Problem& p) {
  return x.view({p.k.size(0), -1, x.size(3)});
}

// Writes a tile [R, G count, D] to its place in x [B,T,H,D].
void SetQueries(const at::Tensor& x, const Tile& tile, const at::Tensor& value) {
  x.narrow(1, tile.first, tile.count)
      .copy_(value.view({x.size(0), x.size(2), tile.count, x.size(3)}).transpose(1, 2));
}

// Whether the backward pass is to find the weights of all tiles. Those of sinks need the scores.
bool KeepsWeights(const Problem& p) {
  if (p.sinks.defined()) return false;
  std::int64_t num_weights = 0;
  for (const Tile& tile : CutQueries(p)) {
    num_weights += p.sizes.batch_size * p.sizes.num_heads * tile.count * tile.num_keys;
  }
  return num_weights <= kMaxKeptWeights;
}

// o [B,T,H,V] in the dtype of `like`. Appends the weights of each tile to `kept` unless it is null.
at::Tensor Forward(const Problem& p, const at::Tensor& like, std::vector<at::Tensor>* kept) {
  const at::Tensor o =
      at::empty({p.sizes.batch_size, p.sizes.num_queries, p.sizes.num_heads, p.sizes.head_v_dim},
                like.options().requires_grad(false));
  for (const Tile& tile : CutQueries(p)) {
    auto weights = FormWeights(p, tile).of_keys;
    if (kept != nullptr) kept->push_back(weights);
    if (p.dropout.defined()) {
      const auto dropout = DropoutOf(p, tile);
      weights = kept != nullptr ? weights * dropout : weights.mul_(dropout);
    }
    SetQueries(o, tile, at::bmm(Flat(weights, p), KeysOf(p.v, tile)));
  }
  return o;
}

struct Gradients {
  at::Tensor q;      // [B,T,H,K]
  at::Tensor k;      // [R,S,K]
  at::Tensor v;      // [R,S,V]
  at::Tensor decay;  // [B,H,S], of the sums; undefined without
  at::Tensor sinks;  // [H]; undefined without
};

void AddTile(const Problem& p, const Tile& tile, const Weights& weights, const at::Tensor& d_o,
             Gradients& sums) {
  const auto dropout = DropoutOf(p, tile);
  const auto kept = dropout.defined() ? weights.of_keys * dropout : weights.of_keys;
  const auto d_o_tile = QueriesOf(d_o, tile);
  // Not by baddbmm_: under autocast products come in another dtype than what they are added to.
  KeysOf(sums.v, tile).add_(at::bmm(Flat(kept, p).mT(), d_o_tile));

  auto d_weights = at::bmm(d_o_tile, KeysOf(p.v, tile).mT())
                       .to(weights.of_keys.scalar_type())
                       .view(weights.of_keys.sizes());
  if (dropout.defined()) d_weights.mul_(dropout);
  const auto d_scores =
      at::_softmax_backward_data(d_weights, weights.of_keys, -1, weights.of_keys.scalar_type());
  const auto flat = Flat(d_scores, p);
  SetQueries(sums.q, tile, at::bmm(flat, KeysOf(p.k, tile)).mul_(p.sizes.scale));
  KeysOf(sums.k, tile).add_(at::bmm(flat.mT(), QueriesOf(p.q, tile)));
  // The scores of a query together have no gradient, so that of the sums at queries is zero.
  if (sums.decay.defined()) {
    sums.decay.narrow(2, tile.first_key, tile.num_keys).sub_(d_scores.sum(2));
  }
  if (sums.sinks.defined()) {
    const auto mean = (d_weights * weights.of_keys).sum(-1, /*keepdim=*/true);
    sums.sinks.sub_((mean * weights.of_sink).sum({0, 2, 3}));
  }
}

// `saved` as Forward was given and left it: the gradient of q has the dtype of q, and weights of
// tiles may follow the inputs.
Gradients Backward(const Problem& p, const std::vector<at::Tensor>& saved, const at::Tensor& grad) {
  const at::Tensor& q = saved[kQ];
  const auto d_o = ByHeads(grad, p.sizes.compute_dtype).unflatten(0, {-1, p.q.size(1)});
  Gradients sums{.q = at::empty(q.sizes(), q.options().requires_grad(false)),
                 .k = at::zeros_like(p.k),
                 .v = at::zeros_like(p.v),
                 .decay = {},
                 .sinks = {}};
  if (p.coarse_decay.defined()) sums.decay = at::zeros_like(p.coarse_decay);
  if (p.sinks.defined()) sums.sinks = at::zeros_like(p.sinks).flatten();
  const bool has_weights = saved.size() > kNumSaved;
  std::size_t next = kNumSaved;
  for (const Tile& tile : CutQueries(p)) {
    const Weights weights =
        has_weights ? Weights{.of_keys = saved[next++], .of_sink = {}} : FormWeights(p, tile);
    AddTile(p, tile, weights, d_o, sums);
  }
  return sums;
}

}  // namespace

at::Tensor AtenAttention(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  std::vector<at::Tensor> saved(kNumSaved);
  saved[kQ] = args.q;
  saved[kK] = args.k;
  saved[kV] = args.v;
  saved[kLogDecay] = args.log_decay;
  saved[kSinks] = args.sinks;
  saved[kSlopes] = args.slopes;
  saved[kPositions] = QueryPositions(args, sizes);
  saved[kDropout] = DropoutFactors(args, sizes);
  const std::int64_t window = args.window;
  const std::vector<at::Tensor> inputs = {args.q, args.k, args.v, args.log_decay, args.sinks};
  at::Tensor o;
  {
    const bool has_backward = NeedsBackward(inputs);
    const at::NoGradGuard no_grad;
    const Problem p = Lay(saved, sizes, window);
    o = Forward(p, args.v, has_backward && KeepsWeights(p) ? &saved : nullptr);
  }
  const auto backward = [sizes, window](const BackwardArgs& call) {
    const Problem p = Lay(call.saved, sizes, window);
    const Gradients sums = Backward(p, call.saved, call.grads[0]);
    const auto per_key_head = [&](const at::Tensor& x, const at::Tensor& like) {
      return x.unflatten(0, {sizes.batch_size, -1}).transpose(1, 2).to(like.scalar_type());
    };
    std::vector<at::Tensor> gradients(kSinks + 1);
    gradients[kQ] = sums.q;
    gradients[kK] = per_key_head(sums.k, call.saved[kK]);
    gradients[kV] = per_key_head(sums.v, call.saved[kV]);
    if (sums.decay.defined()) {
      gradients[kLogDecay] = LogDecayGradient(sums.decay, call.saved[kLogDecay]);
    }
    gradients[kSinks] = sums.sinks;
    return gradients;
  };
  SetBackward("AtenAttention", inputs, {o}, saved, backward);
  return o;
}

}  // namespace mixerbench::kernels::softmax_attention
