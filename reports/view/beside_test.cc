// SPDX-License-Identifier: Apache-2.0
#include "reports/view/beside.h"

#include <string>

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

PublishedResult Mqar(const std::string& mixer, Object params) {
  return {.source = "paper",
          .table = "Table 1",
          .task = "MQAR",
          .mixer = mixer,
          .metric = "accuracy",
          .unit = "fraction",
          .value = 0.5,
          .params = std::move(params),
          .note = ""};
}

Value Config(const std::string& mixer, int d_model) {
  return Object{
      {"task",
       Object{{"name", "mqar"},
              {"test",
               Array{Object{{"input_seq_len", 64}, {"num_kv_pairs", 4}, {"vocab_size", 8192}}}}}},
      {"model",
       Object{{"d_model", d_model}, {"n_layers", 2}, {"sequence_mixer", Object{{"name", mixer}}}}}};
}

}  // namespace

TEST_CASE("A result corresponds when task, mixer and the sizes that name it agree",
          "[reports][published]") {
  const Object setting = {{"seq_len", 64}, {"kv_pairs", 4}, {"d_model", 64}, {"layers", 4}};
  const Object axes = {{"input_seq_len", 64}};
  CHECK(Corresponds(Mqar("BaseConv", setting), Config("base_conv", 64), axes));
  CHECK_FALSE(Corresponds(Mqar("BaseConv", setting), Config("base_conv", 128), axes));
  CHECK_FALSE(Corresponds(Mqar("Hyena", setting), Config("base_conv", 64), axes));
  CHECK_FALSE(
      Corresponds(Mqar("BaseConv + RESONA layer 0", setting), Config("base_conv", 64), axes));
  CHECK_FALSE(
      Corresponds(Mqar("BaseConv", setting), Config("base_conv", 64), {{"input_seq_len", 128}}));
  CHECK(Differences(Mqar("BaseConv", setting), Config("base_conv", 64), axes) ==
        "n_layers 2, theirs 4");
  CHECK(Differences(Mqar("BaseConv", {{"seq_len", 64}}), Config("base_conv", 64), axes).empty());
}

}  // namespace mixerbench::reports
