// Parameter counts of wrappers with what they hold, as papers print them.
// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "tests/conformance/mixer_cases.h"

#include "tests/support/catch2.h"

namespace mixerbench::conformance {
namespace {

std::int64_t CountOf(const Object& config, std::int64_t d_model) {
  models::ParameterSet parameters(1, models::InitPolicy::kDefault, 2, at::kCPU, at::kFloat);
  models::CreateMixer(config, "/mixer",
                      {.d_model = d_model, .max_seq_len = 32, .registry = &Mixers()},
                      models::ParameterScope(parameters));
  return parameters.num_elements();
}

// Two layers of width 64, an embedding of 16 tokens and a decoder with a bias.
constexpr std::int64_t kOutside = 16 * 64 + 64 * 16 + 16;

TEST_CASE("counts: SelectLTI's table") {
  const Object s4 = {{"name", "s4"}, {"d_state", 16}, {"n_ssm", 1}};
  const Object s4d = {{"name", "s4d"}, {"form", "full"}, {"d_state", 16}, {"n_ssm", 1}};
  const Object s5 = {{"name", "s5"}, {"d_state", 32}, {"blocks", 1}, {"activation", "silu"}};
  const auto with_input_gains = [](const Object& core) {
    return Object{{"name", "selectlti"}, {"core", core}, {"out", false}, {"activation", "none"}};
  };
  for (const auto& [config, count] :
       std::vector<std::pair<Object, std::int64_t>>{{s4, 21104},
                                                    {s4d, 21072},
                                                    {s5, 10480},
                                                    {with_input_gains(s4), 23296},
                                                    {with_input_gains(s4d), 23264},
                                                    {Object{{"name", "selectlti"}}, 14864},
                                                    {Object{{"name", "s6"}}, 9488}}) {
    CAPTURE(config.at("name").as_string(), count);
    CHECK(kOutside + 2 * CountOf(config, 64) == count);
  }
}

}  // namespace
}  // namespace mixerbench::conformance
