// Sizes as papers print them: the state of whole models, and the parameters of a mixer of each kind
// at width d with H heads, leading terms first.
// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <vector>

#include "models/backbone.h"
#include "models/state.h"
#include "tests/conformance/mixer_cases.h"

#include "tests/support/catch2.h"

namespace mixerbench::conformance {
namespace {

using models::StateSize;

// Of one sequence, of a model that is only planned: it has no memory for its weights.
StateSize StateOf(const Object& mixer, std::int64_t d_model, std::int64_t n_layers,
                  const std::string& state_mixer = "identity") {
  models::BackboneRegistry backbones("backbone");
  models::RegisterBackbones(backbones);
  const models::BackboneEntry& zoology = backbones.Find("zoology", "");
  models::ParameterSet parameters(1, zoology.init_policy(Object{}), n_layers, at::kMeta,
                                  at::kFloat);
  const auto backbone =
      zoology.create(Object{{"d_model", d_model},
                            {"n_layers", n_layers},
                            {"state_mixer", state_mixer},
                            {"sequence_mixer", mixer}},
                     "", {.vocab_size = 16, .max_seq_len = 64, .mixers = &Mixers()}, parameters);
  return models::SizeOf(backbone->InitialState(1));
}

TEST_CASE("sizes: the states of published models") {
  const auto total = [](const StateSize& size) { return size.recurrent + size.conv; };
  const Object raven = {{"name", "raven"}, {"num_heads", 4}, {"num_slots", 256}, {"top_k", 32}};
  const Object sila = {{"name", "sila"}, {"num_heads", 16}};

  CHECK(total(StateOf({{"name", "delta_net"}, {"num_heads", 16}}, 2048, 24)) == 6881280);
  const StateSize gdn =
      StateOf({{"name", "gated_delta_net"}, {"num_heads", 8}, {"expand_v", 1}}, 2048, 24);
  CHECK(total(gdn) == 13172736);
  CHECK(total(StateOf({{"name", "mamba2"}}, 1024, 48)) == 13025280);
  CHECK(total(StateOf({{"name", "rwkv7"}, {"num_heads", 16}}, 1024, 24, "rwkv7")) == 1622016);
  CHECK(total(StateOf(sila, 1024, 28)) == 2179072);
  CHECK(total(StateOf(raven, 1024, 24)) == 12582912);
  const StateSize small_gdn = StateOf({{"name", "gated_delta_net"}, {"num_heads", 4}}, 1024, 24);
  CHECK(small_gdn.recurrent == 12582912);
  CHECK(small_gdn.conv == 24 * 4 * 4096);

  // The synthetic model of SILA is quoted with three inputs a channel.
  CHECK(total(StateOf({{"name", "sila"}}, 64, 2)) == 5632);
  CHECK(total(StateOf({{"name", "sila"}, {"conv_size", 3}}, 64, 2)) == 5248);
}

TEST_CASE("sizes: the parameters of a mixer of each kind") {
  constexpr std::int64_t d = 64;
  constexpr std::int64_t H = 2;
  constexpr std::int64_t D = d / H;
  struct Expected {
    Object config;
    std::int64_t leading;
    std::int64_t rest;  // norms, biases, convolutions, gate parameters
    std::int64_t layer = 0;
  };
  const Object ranks = {{"name", "rwkv7"},
                        {"decay_low_rank_dim", 8},
                        {"a_low_rank_dim", 12},
                        {"v_low_rank_dim", 16},
                        {"gate_low_rank_dim", 20}};
  const std::vector<Expected> all = {
      {{{"name", "attention"}, {"qkv_bias", false}, {"out_bias", false}}, 4 * d * d, 0},
      {{{"name", "attention"}, {"qkv_bias", false}, {"out_bias", false}, {"num_kv_heads", 1}},
       2 * d * d + 2 * d * d / H,
       0},
      {{{"name", "sliding_window"}, {"qkv_bias", false}, {"out_bias", false}}, 4 * d * d, 0},
      {{{"name", "fox"}}, 4 * d * d + d * H, H},
      {{{"name", "fox"}, {"use_output_gate", true}}, 5 * d * d + d * H, H},
      {{{"name", "linear_attention"}}, 4 * d * d, D},
      {{{"name", "retnet"}}, 8 * d * d, 2 * D},
      {{{"name", "simple_gla"}}, 5 * d * d + d * H, H + 12 * d + D},
      {{{"name", "lightning"}}, 5 * d * d, D},
      {{{"name", "gla"}}, 4 * d * d + 24 * d, d / 2 + D},
      {{{"name", "hgrn2"}}, 4 * d * d, d},  // the first layer has no bounds
      {{{"name", "gsa"}}, 4 * d * d + d * H * D, d},
      {{{"name", "abc"}}, 4 * d * d + d * H * D / 2, D},
      {{{"name", "metala"}}, 4 * d * d, d + d / 2 + 4 * d},
      {{{"name", "delta_net"}}, 4 * d * d + d * H, 12 * d + D},
      {{{"name", "delta_net"}, {"use_output_gate", true}}, 5 * d * d + d * H, 12 * d + D},
      {{{"name", "gated_delta_net"}, {"expand_k", 0.75}, {"use_output_gate", true}},
       6 * d * d + 2 * d * H,
       2 * H + 4 * 3 * d + 3 * d / 2 / H},
      {{{"name", "gated_delta_net"}}, 6 * d * d + 2 * d * H, 2 * H + 4 * 4 * d + 2 * D},
      {{{"name", "kda"}}, 4 * d * d + 4 * d * D + d * H, H + d + 12 * d + D + d},
      {{{"name", "gated_delta_product"}, {"expand_k", 0.75}},
       3 * d * d * 3 / 4 + 6 * d * d,
       d * H * 3 + 2 * H + 4 * (9 * d / 4 + 3 * d) + 3 * d / 2 / H},
      {{{"name", "rwkv5"}}, 5 * d * d, 4 * d + d + d + 2 * d},
      {{{"name", "rwkv6"}}, 5 * d * d + 448 * d, 6 * d + d + d + 2 * d},
      {ranks, 4 * d * d + 2 * d * (8 + 12 + 20), 6 * d + 2 * d + 3 * d + 2 * d},
      {ranks, 4 * d * d + 2 * d * (8 + 12 + 16 + 20), 6 * d + 3 * d + 3 * d + 2 * d, 1},
      {{{"name", "mesa_net"}}, 4 * d * d + 2 * d * H, 2 * H + d + 8 * d + D},
      {{{"name", "ttt_linear"}}, 4 * d * d + d * D + d * H, H + d + 2 * d + 16 + 2 * d},
      {{{"name", "titans"}}, 5 * d * d + 3 * d * H, 3 * H + 12 * d + D},
      {{{"name", "log_linear"}, {"expand_v", 2}, {"num_levels", 7}, {"bias", false}},
       6 * d * d + 2 * d * 64 + d * H * (7 + 1),
       H + H + H + 7 * H + 5 * (2 * d + 2 * 64) + 2 * d},
      {{{"name", "mom"}},
       d * d + 5 * d * 2 * d + 2 * d * d + d * 4,
       2 * 5 * d * H + 2 * H + 4 * 3 * d + D},
      {{{"name", "sse"}}, 4 * d * d + 4 * D * d + 2 * d * D + 64 * d + d * 4, 2 * d + D},
      {{{"name", "raven"}, {"num_heads", 2}}, 5 * d * d + d * H * 64, d * H + 2 * H + 2 * D + D},
      {{{"name", "sila"}}, 5 * d * d + 3 * d * H + 2 * H * D, 12 * d + D},
  };
  for (const Expected& expected : all) {
    models::ParameterSet parameters(1, models::InitPolicy::kDefault, 2, at::kCPU, at::kFloat);
    std::set<std::string> offered = {};
    if (expected.layer > 0) offered = {"v_first"};
    models::CreateMixer(expected.config, "",
                        {.d_model = d,
                         .layer_index = expected.layer,
                         .num_layers = 2,
                         .max_seq_len = 64,
                         .registry = &Mixers(),
                         .offered = offered},
                        models::ParameterScope(parameters));
    CAPTURE(expected.config.at("name").as_string(), expected.layer);
    CHECK(parameters.num_elements() - expected.leading == expected.rest);
  }
}

}  // namespace
}  // namespace mixerbench::conformance
