// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/hybrid/hybrid.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "models/mixer.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::hybrid {

void Register(MixerRegistry& registry);

namespace {

// A mixer that is nothing but a width, to see which one was made.
class Probe final : public Mixer {
 public:
  explicit Probe(std::int64_t width) : width_(width) {}
  MixerTraits traits() const override { return {.max_seq_len = width_}; }
  State InitialState(std::int64_t) const override { return {}; }
  Mixed Mix(const MixerInputs& inputs, const MixerOptions&) const override {
    return {.tokens = {{inputs.x}}};
  }
  at::Tensor Output(const Mixed& mixed, const MixerOptions&) const override {
    return mixed.tokens[0].value;
  }

 private:
  std::int64_t width_;
};

MixerRegistry RegistryWithProbe() {
  MixerRegistry registry("mixer");
  Register(registry);
  MixerEntry probe;
  probe.create = [](const Value& config, const std::string& where, const MixerContext&,
                    const ParameterScope&) -> std::unique_ptr<Mixer> {
    const Value* width = config.Find("width");
    if (width == nullptr) throw ConfigError(where + "/width", "is missing");
    return std::make_unique<Probe>(width->as_int());
  };
  probe.resolve = [](const Value& config, const std::string&, const MixerRegistry&) {
    Value resolved = config;
    resolved.as_object()["resolved"] = true;
    return resolved;
  };
  registry.Add("probe", std::move(probe));
  return registry;
}

Value Hybrid(Array pattern) { return Object{{"name", "hybrid"}, {"pattern", std::move(pattern)}}; }

TEST_CASE("hybrid: layers take the mixers of the pattern in turn") {
  const MixerRegistry registry = RegistryWithProbe();
  const Value config =
      Hybrid({Object{{"name", "probe"}, {"width", 10}}, Object{{"name", "probe"}, {"width", 20}},
              Hybrid({Object{{"name", "probe"}, {"width", 30}}})});
  const std::int64_t expected[] = {10, 20, 30, 10, 20};
  for (std::int64_t layer = 0; layer < 5; ++layer) {
    ParameterSet parameters(1, InitPolicy::kDefault, 5, at::kCPU, at::kFloat);
    const auto mixer =
        CreateMixer(config, "/mixer",
                    {.d_model = 4, .layer_index = layer, .num_layers = 5, .registry = &registry},
                    ParameterScope(parameters));
    CHECK(mixer->traits().max_seq_len == expected[layer]);
  }
}

TEST_CASE("hybrid: resolving resolves what the pattern holds") {
  const MixerRegistry registry = RegistryWithProbe();
  const Value resolved = ResolveMixer(
      Hybrid({Object{{"name", "probe"}}, Object{{"name", "probe"}, {"width", 2}}}), "", registry);
  for (const Value& item : resolved.Find("pattern")->as_array()) {
    CHECK(item.Find("resolved") != nullptr);
    CHECK(item.Find("name")->as_string() == "probe");
  }
}

TEST_CASE("hybrid: errors point into the pattern") {
  const MixerRegistry registry = RegistryWithProbe();
  CHECK_THROWS_WITH(
      ResolveMixer(Hybrid({Object{{"name", "probe"}}, Object{{"name", "prob"}}}), "/m", registry),
      Catch::Matchers::StartsWith("/m/pattern/1/name: "));
  CHECK_THROWS_WITH(ResolveMixer(Hybrid({}), "/m", registry),
                    Catch::Matchers::StartsWith("/m/pattern: "));
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  CHECK_THROWS_WITH(CreateMixer(Hybrid({Object{{"name", "probe"}}}), "/m",
                                {.d_model = 4, .registry = &registry}, ParameterScope(parameters)),
                    "/m/pattern/0/width: is missing");
}

}  // namespace
}  // namespace mixerbench::models::hybrid
