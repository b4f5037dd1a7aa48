// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/row_sparse/row_sparse.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include "base/error.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/holding_mixer.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/mixer.h"

namespace mixerbench::models::row_sparse {
namespace {

constexpr char kLoss[] = "row_balance";
constexpr double kLossWeight = 0.01;
constexpr std::array<std::string_view, 4> kInner = {"gla", "gsa", "hgrn2", "metala"};

const Fields<RowSparseConfig>& ConfigFields() {
  static const auto fields =
      Fields<RowSparseConfig>()
          .Add("inner", &RowSparseConfig::inner, "a mixer: gla, gsa, hgrn2 or metala")
          .Add("num_rows", &RowSparseConfig::num_rows,
               "rows of a head's state that a token changes; 0: a quarter of them")
          .Add("writes", &RowSparseConfig::writes,
               "what is written to them: the keys, their softmax, or (auto) that for gla alone")
          .AddLater("by_magnitude", &RowSparseConfig::by_magnitude,
                    "choose rows by the magnitude of what is written; of keys as they are");
  return fields;
}

// The largest num_rows of x [...,N], the first of equal ones: a mask [...,N].
at::Tensor Largest(const at::Tensor& x, std::int64_t num_rows) {
  const at::Tensor least = std::get<0>(at::topk(x, num_rows)).narrow(-1, num_rows - 1, 1);
  const at::Tensor above = x > least;
  const at::Tensor equal = x == least;
  const at::Tensor places = num_rows - above.sum(-1, /*keepdim=*/true);
  return above.logical_or(equal.logical_and(equal.cumsum(-1) <= places));
}

struct TopRows {
  std::int64_t num_rows;
  bool softmax;
  bool by_magnitude;

  void operator()(kernels::RecurrenceArgs& args, bool has_slots, const MixerOptions& options,
                  Mixed& mixed) const {
    at::Tensor writes = has_slots ? -at::expm1(args.log_decay) : AtLeastFloat(args.k);
    const at::Tensor chosen =
        Largest(by_magnitude ? writes.detach().abs() : writes.detach(), num_rows);
    if (softmax) {
      const at::Tensor logits =
          writes.masked_fill(chosen.logical_not(), -std::numeric_limits<double>::infinity());
      writes = at::softmax(logits, -1);
    } else {
      writes = writes.masked_fill(chosen.logical_not(), 0);
    }
    args.log_decay = args.log_decay.masked_fill(chosen.logical_not(), 0);
    if (!has_slots) args.k = writes.to(args.k.scalar_type());
    mixed.AddLoss(kLoss, Balance(chosen, writes));
    options.taps.Record("router", chosen);
  }

 private:
  // (c/k) sum_i f_i k_i over the c rows of a head, mean over heads: f_i how often row i is chosen,
  // k_i what is written to it on average.
  at::Tensor Balance(const at::Tensor& chosen, const at::Tensor& writes) const {
    const at::Tensor frequency = chosen.to(writes.scalar_type()).flatten(0, 1).mean(0);  // [H,N]
    const double scale = static_cast<double>(chosen.size(-1)) / static_cast<double>(num_rows);
    return (frequency * writes.flatten(0, 1).mean(0)).sum(-1).mean().to(at::kFloat) * scale;
  }
};

std::string NameOfInner(const Value& inner, const std::string& where) {
  const Value* name = inner.is_object() ? inner.Find("name") : nullptr;
  if (name != nullptr && name->is_string() &&
      std::find(kInner.begin(), kInner.end(), name->as_string()) != kInner.end()) {
    return name->as_string();
  }
  throw ConfigError(where,
                    "row_sparse needs a mixer with a decay of each row: gla, gsa, hgrn2 or metala");
}

RowSparseConfig Parse(const Value& config, const std::string& where) {
  return ConfigFields().Parse(config, where);
}

// The inner mixer itself, with a filter before its core: its parameters, states and taps keep their
// names.
std::unique_ptr<Mixer> Make(const RowSparseConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  const std::string name = NameOfInner(config.inner, where + "/inner");
  std::unique_ptr<Mixer> inner = CreateMixer(config.inner, where + "/inner", context, scope);
  const State state = inner->InitialState(1);
  const bool has_slots = state.tensors.contains("keys");
  const std::int64_t rows = has_slots ? state.tensors.at("keys").value.size(-1)
                                      : state.tensors.at("state").value.size(-2);
  CheckRange(config.num_rows, 0, rows, where, "num_rows");
  if (has_slots && config.writes == RowWrites::kSoftmax) {
    throw ConfigError(where + "/writes", "slots are written with what they forget: no softmax");
  }
  const bool softmax =
      config.writes == RowWrites::kSoftmax || (config.writes == RowWrites::kAuto && name == "gla");
  if (config.by_magnitude && (has_slots || softmax)) {
    throw ConfigError(where + "/by_magnitude",
                      "is for writes that may be negative: keys as they are");
  }
  const std::int64_t chosen =
      config.num_rows > 0 ? config.num_rows : std::max<std::int64_t>(rows / 4, 1);
  dynamic_cast<MatrixStateMixer&>(*inner).SetFilter(
      TopRows{chosen, softmax, config.by_magnitude},
      {.losses = {{kLoss, kLossWeight}}, .discrete = true});
  return inner;
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry =
      MakeHoldingEntry(ConfigFields(), Parse, "inner", &RowSparseConfig::inner, Make);
  entry.summary = "a mixer whose tokens change a few rows of the state, those written most";
  entry.source = "arXiv 2507.16577";
  entry.test_configs = {
      Object{{"inner", Object{{"name", "gsa"}, {"num_slots", 8}}}, {"num_rows", 3}},
      Object{{"inner", Object{{"name", "metala"}, {"expand_k", 1}}}},
      Object{{"inner", Object{{"name", "hgrn2"}}}, {"num_rows", 2}, {"writes", "softmax"}},
      Object{{"inner", Object{{"name", "gla"}, {"expand_k", 1}}},
             {"num_rows", 3},
             {"writes", "as_is"},
             {"by_magnitude", true}},
  };
  registry.Add("row_sparse", std::move(entry));
}

}  // namespace mixerbench::models::row_sparse
