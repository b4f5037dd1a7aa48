// SPDX-License-Identifier: Apache-2.0
#include "models/parameters.h"

#include <cmath>
#include <stdexcept>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include "base/philox.h"

#include "tests/support/catch2.h"

namespace mixerbench::models {
namespace {

constexpr auto kWeight = ParameterRole::kLinearWeight;

ParameterSet Set(InitPolicy policy = InitPolicy::kDefault, std::uint64_t seed = 1,
                 at::ScalarType dtype = at::kDouble) {
  return ParameterSet(seed, policy, /*num_layers=*/2, at::kCPU, dtype);
}

TEST_CASE("parameters: a parameter depends on its name and the seed, not on the others") {
  ParameterSet alone = Set();
  const at::Tensor first = ParameterScope(alone).Add("b", {3, 5}, kWeight, Init::Normal(1));
  ParameterSet crowded = Set();
  ParameterScope(crowded).Add("a", {7}, kWeight, Init::Normal(1));
  CHECK(first.equal(ParameterScope(crowded).Add("b", {3, 5}, kWeight, Init::Normal(1))));
  ParameterSet other_seed = Set(InitPolicy::kDefault, 2);
  CHECK_FALSE(first.equal(ParameterScope(other_seed).Add("b", {3, 5}, kWeight, Init::Normal(1))));
  CHECK_FALSE(first.equal(ParameterScope(crowded).Add("c", {3, 5}, kWeight, Init::Normal(1))));
}

TEST_CASE("parameters: rows added at the end change no earlier row") {
  ParameterSet small = Set();
  ParameterSet large = Set();
  const at::Tensor few = ParameterScope(small).Add("w", {3, 5}, kWeight, Init::Uniform(-1, 1));
  const at::Tensor many = ParameterScope(large).Add("w", {4, 5}, kWeight, Init::Uniform(-1, 1));
  CHECK(many.narrow(0, 0, 3).equal(few));
}

TEST_CASE("parameters: draws have the moments of their distribution") {
  constexpr std::int64_t kCount = 100'000;
  constexpr double kFiveStandardErrors = 5 / 316.0;
  ParameterSet set = Set();
  const ParameterScope scope(set);
  const auto mean = [](const at::Tensor& x) { return x.mean().item<double>(); };
  const at::Tensor normal = scope.Draw("n", {kCount}, Init::Normal(2));
  CHECK(std::abs(mean(normal)) < 2 * kFiveStandardErrors);
  CHECK(std::abs(normal.std().item<double>() - 2) < 2 * kFiveStandardErrors);
  CHECK(std::abs(mean(normal.narrow(0, 0, kCount - 1).mul(normal.narrow(0, 1, kCount - 1)))) <
        4 * kFiveStandardErrors);  // the two halves of a Box-Muller pair are independent
  const at::Tensor uniform = scope.Draw("u", {kCount}, Init::Uniform(-1, 3));
  CHECK(std::abs(mean(uniform) - 1) < 2 * kFiveStandardErrors);
  CHECK(uniform.min().item<double>() >= -1);
  CHECK(uniform.max().item<double>() < 3);
  const at::Tensor log_uniform = scope.Draw("l", {kCount}, Init::LogUniform(1e-3, 0.1));
  CHECK(std::abs(mean(log_uniform.log()) - std::log(1e-2)) < 2 * kFiveStandardErrors);
  CHECK(mean(scope.Draw("c", {3}, Init::Constant(4))) == 4);
}

TEST_CASE("parameters: the zoology policy replaces linear and embedding initialisation") {
  ParameterSet set = Set(InitPolicy::kZoology);
  const ParameterScope scope(set);
  const auto stddev = [](const at::Tensor& x) { return x.detach().std().item<double>(); };
  using Catch::Matchers::WithinRel;
  constexpr double kRelative = 0.05;  // 10^4 draws: one standard error is 0.7 %
  const std::vector<std::int64_t> shape = {100, 100};
  const Init init = Init::Uniform(-9, 9);
  CHECK_THAT(stddev(scope.Add("q.weight", shape, kWeight, init)), WithinRel(0.02, kRelative));
  CHECK_THAT(stddev(scope.Add("o", shape, ParameterRole::kResidualOutputWeight, init)),
             WithinRel(0.01, kRelative));  // 0.02 / sqrt(2 * 2 layers)
  CHECK_THAT(stddev(scope.Add("e", shape, ParameterRole::kEmbedding, init)),
             WithinRel(0.02, kRelative));
  CHECK(stddev(scope.Add("b", shape, ParameterRole::kLinearBias, init)) == 0);
  CHECK(stddev(scope.Add("c", shape, ParameterRole::kConvWeight, init)) > 1);
  CHECK(stddev(scope.AddSpecial("s", shape, init)) > 1);
}

TEST_CASE("parameters: mad_reset sets flagged biases to 0 and other special parameters stay") {
  const at::Tensor values = at::full({5}, 3, at::kDouble);
  for (const InitPolicy policy : {InitPolicy::kDefault, InitPolicy::kZoology, InitPolicy::kMad,
                                  InitPolicy::kMadReset, InitPolicy::kMamba, InitPolicy::kFla}) {
    ParameterSet set = Set(policy);
    const ParameterScope scope(set);
    const bool is_reset = policy == InitPolicy::kMadReset;
    CHECK(scope.AddFlaggedBias("dt", values).sum().item<double>() == (is_reset ? 0 : 15));
    CHECK(scope.AddSpecial("A", values).sum().item<double>() == 15);
    CHECK_FALSE(set.parameters()[0].weight_decay);
  }
}

TEST_CASE("parameters: the mamba policy divides the outputs of branches by sqrt(layers)") {
  ParameterSet plain_set = Set();
  ParameterSet set = Set(InitPolicy::kMamba);
  const Init init = Init::Uniform(-1, 1);
  const auto add = [&](ParameterSet& to, ParameterRole role) {
    return ParameterScope(to).Add(role == kWeight ? "w" : "o", {8, 8}, role, init).detach();
  };
  constexpr auto kOutput = ParameterRole::kResidualOutputWeight;
  CHECK(add(set, kWeight).equal(add(plain_set, kWeight)));
  CHECK(add(set, kOutput).mul(std::sqrt(2.0)).allclose(add(plain_set, kOutput)));
}

TEST_CASE("parameters: the mad policy keeps linear weights and clears their biases") {
  ParameterSet set = Set(InitPolicy::kMad);
  const ParameterScope scope(set);
  const Init init = Init::Uniform(-9, 9);
  CHECK(scope.Add("w", {100}, kWeight, init).abs().max().item<double>() > 1);
  CHECK(scope.Add("b", {100}, ParameterRole::kLinearBias, init).abs().max().item<double>() == 0);
  CHECK(scope.Add("e", {100}, ParameterRole::kEmbedding, init).abs().max().item<double>() < 0.1);
}

TEST_CASE("parameters: the fla policy starts convolutions too, and rescales no output") {
  ParameterSet set = Set(InitPolicy::kFla);
  const ParameterScope scope(set);
  const Init init = Init::Uniform(-9, 9);
  for (const ParameterRole role : {kWeight, ParameterRole::kResidualOutputWeight,
                                   ParameterRole::kConvWeight, ParameterRole::kEmbedding}) {
    const std::string name = "w" + std::to_string(static_cast<int>(role));
    CAPTURE(name);
    CHECK_THAT(scope.Add(name, {100, 100}, role, init).detach().std().item<double>(),
               Catch::Matchers::WithinRel(0.02, 0.05));
  }
  for (const ParameterRole role : {ParameterRole::kLinearBias, ParameterRole::kConvBias}) {
    const std::string name = "b" + std::to_string(static_cast<int>(role));
    CHECK(scope.Add(name, {100}, role, init).abs().max().item<double>() == 0);
  }
  CHECK(scope.Add("n", {4}, ParameterRole::kNormWeight, Init::Constant(1)).sum().item<double>() ==
        4);
  CHECK(scope.AddSpecial("s", {100}, init).abs().max().item<double>() > 1);
}

TEST_CASE("parameters: weights of a layer that draws itself are for those that draw all anew") {
  const Init own = Init::Constant(3);
  const auto stays = [&](InitPolicy policy) {
    ParameterSet set = Set(policy);
    return ParameterScope(set)
        .Add("w", {100}, ParameterRole::kOwnLinearWeight, own)
        .eq(3)
        .all()
        .item<bool>();
  };
  for (const InitPolicy policy :
       {InitPolicy::kDefault, InitPolicy::kMad, InitPolicy::kMamba, InitPolicy::kFla}) {
    CAPTURE(NameOf(policy));
    CHECK(stays(policy));
  }
  CHECK_FALSE(stays(InitPolicy::kZoology));
  CHECK_FALSE(stays(InitPolicy::kMadReset));
}

TEST_CASE("parameters: an own weight starts as its mixer says under every policy, and decays") {
  const Init init = Init::Normal(3);
  const auto add = [&](ParameterSet& set, ParameterRole role) {
    return ParameterScope(set).Add("w", {6, 4}, role, init);
  };
  ParameterSet plain = Set();
  const at::Tensor expected = add(plain, ParameterRole::kOwnWeight);
  for (const InitPolicy policy : {InitPolicy::kDefault, InitPolicy::kZoology, InitPolicy::kMad,
                                  InitPolicy::kMadReset, InitPolicy::kMamba, InitPolicy::kFla}) {
    CAPTURE(static_cast<int>(policy));
    ParameterSet own = Set(policy);
    CHECK(add(own, ParameterRole::kOwnWeight).equal(expected));
    CHECK(own.parameters()[0].weight_decay);
    // A convolution starts alike under all policies but one.
    ParameterSet convolution = Set(policy);
    CHECK(add(convolution, ParameterRole::kConvWeight).equal(expected) ==
          (policy != InitPolicy::kFla));
  }
}

TEST_CASE("parameters: blocks of rows have a start each, and are one draw where it is the same") {
  constexpr auto kOutput = ParameterRole::kResidualOutputWeight;
  for (const InitPolicy policy : {InitPolicy::kDefault, InitPolicy::kZoology, InitPolicy::kMamba}) {
    ParameterSet whole_set = Set(policy), set = Set(policy);
    const at::Tensor whole =
        ParameterScope(whole_set).Add("w", {9, 5}, kOutput, Init::Uniform(-1, 1));
    const at::Tensor equal = ParameterScope(set).AddRows(
        "w", {{1, Init::Uniform(-1, 1)}, {8, Init::Uniform(-1, 1)}}, 5, kOutput);
    CHECK(whole.equal(equal));
    CHECK(set.parameters()[0].role == kOutput);
    CHECK(set.parameters()[0].weight_decay);
  }
  const auto of_two = [](InitPolicy policy) {
    ParameterSet set = Set(policy);
    return ParameterScope(set)
        .AddRows("w", {{3, Init::Uniform(-1, 1)}, {2, Init::Uniform(-4, 4)}}, 5, kWeight)
        .detach();
  };
  ParameterSet plain_set = Set();
  const at::Tensor plain =
      ParameterScope(plain_set).Add("w", {5, 5}, kWeight, Init::Uniform(-1, 1)).detach();
  const at::Tensor rows = of_two(InitPolicy::kMad);  // keeps what linear weights ask for
  CHECK(rows.narrow(0, 0, 3).equal(plain.narrow(0, 0, 3)));
  CHECK(rows.narrow(0, 3, 2).allclose(4 * plain.narrow(0, 3, 2)));
  CHECK(of_two(InitPolicy::kMadReset).abs().max().item<double>() < 0.1);
  ParameterSet planned(0, InitPolicy::kDefault, 1, at::kMeta, at::kFloat);
  constexpr std::int64_t kHuge = std::int64_t{1} << 20;
  CHECK(ParameterScope(planned)
            .AddRows("w", {{1, Init::Normal(1)}, {kHuge, Init::Normal(1)}}, kHuge, kWeight)
            .sizes() == at::IntArrayRef({kHuge + 1, kHuge}));
}

TEST_CASE("parameters: specials stay in float32 and may be exempt from weight decay") {
  ParameterSet set = Set(InitPolicy::kDefault, 1, at::kBFloat16);
  const ParameterScope scope(set);
  scope.Add("w", {2}, kWeight, Init::Normal(1));
  scope.AddSpecial("A_log", {2}, Init::Constant(0));
  REQUIRE(set.parameters().size() == 2);
  CHECK(set.parameters()[0].tensor.scalar_type() == at::kBFloat16);
  CHECK(set.parameters()[0].weight_decay);
  CHECK(set.parameters()[1].tensor.scalar_type() == at::kFloat);
  CHECK_FALSE(set.parameters()[1].weight_decay);
  CHECK(set.parameters()[1].tensor.is_leaf());
  CHECK(set.parameters()[1].tensor.requires_grad());
  CHECK(set.num_elements() == 4);
}

TEST_CASE("parameters: a shadow weight is where whoever keeps one and every layer look") {
  ParameterSet set = Set();
  const ParameterScope scope(set, "layers.0.");
  scope.Add("w", {2}, kWeight, Init::Normal(1));
  CHECK(set.parameters()[0].narrow == nullptr);
  const auto shadow = scope.Shadow("w");
  CHECK_FALSE(shadow->defined());
  CHECK(shadow == scope.Shadow("w"));
  CHECK(shadow == set.parameters()[0].narrow);
  CHECK_THROWS_AS(scope.Shadow("v"), std::logic_error);
}

TEST_CASE("parameters: one name belongs to one parameter") {
  ParameterSet set = Set();
  const ParameterScope scope(set, "layers.0.");
  scope.Add("w", {2}, kWeight, Init::Normal(1));
  CHECK(set.parameters()[0].name == "layers.0.w");
  CHECK_THROWS_AS(scope.Add("w", {2}, kWeight, Init::Normal(1)), std::logic_error);
}

TEST_CASE("parameters: a model that is only planned takes no memory and draws nothing") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 20;
  ParameterSet set(0, InitPolicy::kZoology, 2, at::kMeta, at::kFloat);
  const ParameterScope scope(set);
  const at::Tensor weight =
      scope.Add("w", {kHuge, kHuge}, ParameterRole::kLinearWeight, Init::Normal(1));
  CHECK(weight.is_meta());
  CHECK(weight.sizes() == at::IntArrayRef({kHuge, kHuge}));
  CHECK(set.num_elements() == kHuge * kHuge);
  CHECK(scope.AddSpecial("s", {3}, Init::LogUniform(1e-3, 0.1)).size(0) == 3);
  // Values for a function of what is drawn are in the range of the draw.
  const at::Tensor drawn = scope.Draw("d", {kHuge}, Init::Uniform(2, 3));
  CHECK(drawn.select(0, kHuge - 1).item<double>() >= 2);
}

TEST_CASE("parameters: what layers share is drawn once and is one tensor") {
  ParameterSet set(1, InitPolicy::kZoology, 2, at::kCPU, at::kFloat);
  const ParameterScope first = ParameterScope(set).Child("layers.0");
  const ParameterScope second = ParameterScope(set).Child("layers.1");
  const auto bounds = [](const ParameterScope& layer) {
    return layer.Shared().Child("bounds").AddSpecial("weight", {3}, Init::Normal(1));
  };
  const auto table = [](const ParameterScope& layer) {
    return layer.Shared().Add("table", {4, 2}, ParameterRole::kEmbedding, Init::Normal(1));
  };
  CHECK(bounds(first).is_same(bounds(second)));
  CHECK(table(second).is_same(table(first)));
  REQUIRE(set.parameters().size() == 2);
  CHECK(set.parameters()[0].name == "shared.bounds.weight");
  CHECK(set.parameters()[1].name == "shared.table");
  CHECK_THROWS_WITH(first.Shared().Add("table", {4, 3}, ParameterRole::kEmbedding, Init::Normal(1)),
                    Catch::Contains("shared.table is shared by layers of other sizes"));
}

}  // namespace
}  // namespace mixerbench::models
