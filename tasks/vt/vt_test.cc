// SPDX-License-Identifier: Apache-2.0
#include "tasks/vt/vt.h"

#include <algorithm>
#include <set>

#include "tasks/text/text_testing.h"
#include "tasks/vt/vt_chains.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::vt {
namespace {

const TaskEntry& Vt() {
  static const TaskEntry entry = EntryOf(Register, "vt");
  return entry;
}

TEST_CASE("variables are found through copies and copies of copies alone") {
  const std::string text =
      "VAR A = 12345\nnoise\nVAR B = VAR A \nVAR C = 54321\nVAR D = VAR C \nVAR E = VAR B. The VAR "
      "end VAR F = VAR E";
  CHECK(FindVariables(text, "12345") == std::vector<std::string>{"A", "B", "E", "F"});
  CHECK(FindVariables(text, "54321") == std::vector<std::string>{"C", "D"});
  CHECK(FindVariables(text, "1234").empty());
  CHECK(FindVariables("VAR", "1").empty());
}

TEST_CASE("names and values are all different") {
  const auto chains = DrawChains({DeriveKey("test", 0, 0), 0},
                                 {.name_stream = 0, .value_stream = 1, .letters = 1}, 4, 4);
  std::set<std::string> names, values;
  for (const Chain& chain : chains) {
    names.insert(chain.names.begin(), chain.names.end());
    values.insert(chain.value);
  }
  // Twenty names of one letter: most had to be drawn again.
  CHECK(names.size() == 20);
  CHECK(values.size() == 4);
}

TEST_CASE("statements of a chain keep their order among the lines") {
  const PromptRecord record = MakeRecord(Vt(), {{"num_chains", 2}, {"num_hops", 3}});
  REQUIRE(record.references.size() == 4);
  CHECK(record.distractors.size() == 4);
  std::size_t last = 0;
  for (const std::string& name : record.references) {
    const std::size_t at = record.prompt.find("VAR " + name + " = ");
    REQUIRE(at != std::string::npos);
    CHECK(at > last);
    last = at;
  }
  CHECK(CountOf(record.prompt, "VAR ") == 2 * (1 + 2 * 3));
  CHECK(CountOf(record.prompt, "= VAR " + record.references[0] + " \n") == 1);
  CHECK(record.answer_prefix.ends_with(", 4 variables are assigned the value " +
                                       record.metadata.at("query").as_string() + ", they are: "));
}

TEST_CASE("in running text statements end with a period") {
  const PromptRecord record = MakeRecord(Vt(), {{"type_haystack", "kjv"}});
  CHECK(CountOf(record.prompt, "= VAR " + record.references[0] + ".") == 1);
  CHECK(record.metadata.at("num_units").as_int() > 10);
}

TEST_CASE("the example is solved, short and of other variables") {
  const PromptRecord with = MakeRecord(Vt(), {{"input_seq_len", 2048}, {"example", true}});
  const PromptRecord without = MakeRecord(Vt(), {{"input_seq_len", 2048}});
  CHECK(with.references == without.references);
  CHECK(CountOf(with.prompt, "Memorize and track") == 2);
  CHECK(CountOf(with.prompt, "they are: ") == 1);
  const std::size_t end = with.prompt.find("\n\nMemorize");
  CHECK(end < 2200);  // bytes of 500 tokens
}

TEST_CASE("RULER's preset shows an example at every length") {
  const Preset& preset = Vt().presets.front();
  REQUIRE(preset.name == "ruler/11/vt");
  REQUIRE(preset.test.size() == 6);
  for (const Segment& segment : preset.test) {
    CHECK(segment.params.Find("example")->as_bool());
  }
  const PromptRecord record = MakeRecord(Vt(), preset.test.front().params.as_object());
  CHECK(CountOf(record.prompt, "Memorize and track") == 2);
  CHECK(record.prompt_tokens + record.max_new_tokens <= 4096);
}

TEST_CASE("vt says of type_haystack what it takes") {
  const auto info =
      std::find_if(Vt().params.begin(), Vt().params.end(),
                   [](const FieldInfo& field) { return field.name == "type_haystack"; });
  CHECK(info->type == "one of kjv|noise|kjv_train|kjv_test|file");
}

TEST_CASE("every broken rule of vt has its message") {
  CHECK(
      RejectionOf(Vt(), {{"type_haystack", "needle"}}) ==
      "/task/type_haystack: unknown value 'needle'; known: kjv, noise, kjv_train, kjv_test, file");
  CHECK(RejectionOf(Vt(), {{"type_haystack", "file"}}) ==
        "/task: vt: haystack_file must be given with type_haystack file, and only then");
  CHECK(RejectionOf(Vt(), {{"num_chains", 0}}) ==
        "/task: vt: num_chains must be in [1, 64] (num_chains=0)");
  CHECK(RejectionOf(Vt(), {{"num_hops", -1}}) ==
        "/task: vt: num_hops must be in [0, 63] (num_hops=-1)");
  CHECK(RejectionOf(Vt(), {{"num_chains", 13}}) ==
        "/task: vt: num_chains * (num_hops + 1) must be <= 64 (num_chains=13, num_hops=4)");
  CHECK(RejectionOf(Vt(), {{"num_chains", 9}, {"type_haystack", "kjv"}}) ==
        "/task: vt: num_chains * (num_hops + 1) must be <= 40 in running text "
        "(num_chains=9, num_hops=4)");
  CHECK(RejectionOf(Vt(), {{"haystack_seed", -1}}) ==
        "/task: vt: haystack_seed must be >= 0 (haystack_seed=-1)");
  CHECK(RejectionOf(Vt(), {{"haystack_mode", "fixed"}}) ==
        "/task: vt: haystack_mode acts only with running text (haystack_mode=fixed)");
  CHECK(RejectionOf(Vt(), {{"type_haystack", "kjv"}, {"haystack_seed", 1}}) ==
        "/task: vt: haystack_seed acts only with haystack_mode fixed_perm and fixed_offset "
        "(haystack_seed=1)");
  CHECK(RejectionOf(Vt(), {{"type_haystack", "kjv"},
                           {"haystack_mode", "fixed_perm"},
                           {"haystack_seed", 1}}) == "");
  CHECK(RejectionOf(Vt(), {{"input_seq_len", 100}}).find("too small: needs at least ") !=
        std::string::npos);
}

}  // namespace
}  // namespace mixerbench::tasks::vt
