// SPDX-License-Identifier: Apache-2.0
#include "tasks/niah/niah.h"

#include <cstdlib>
#include <fstream>

#include "base/sha256.h"
#include "tasks/task_testing.h"
#include "tasks/text/text_task.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks::niah {
namespace {

std::unique_ptr<Task> Make(const Object& options) {
  static const auto library = std::make_shared<TextLibrary>();
  const NiahParams params = NiahFields().Parse(options, "");
  Validate(params, "");
  return MakeNiah(params, library, "");
}

PromptRecord MakeRecord(const Object& options, std::uint64_t seed, std::uint64_t split,
                        std::uint64_t index) {
  const auto task = Make(options);
  return task->text()->MakePrompt({DeriveKey(task->canon(), seed, split), index});
}

std::string PromptSha256(const PromptRecord& record) {
  return Sha256Hex(record.prompt + record.answer_prefix);
}

struct Golden {
  std::string v_type;
  std::int64_t length;
  PhiloxKey key;
  std::string needle_key, value;
  std::int64_t num_units, needle_unit;
  std::int64_t strong_tokens, strong_chars, original_tokens, none_tokens;
  std::string strong_sha256, original_sha256, none_sha256;
};

// Seed 42, test split, sample 0.
const Golden kGolden[] = {{"numbers",
                           1024,
                           {0xcbf96360, 0x555c63ec},
                           "moist-twilight",
                           "8434177",
                           26,
                           9,
                           896,
                           3763,
                           890,
                           858,
                           "cf6655a3d721a931c0d1816a290be81da69115a29e153645afb96a4770aff0af",
                           "f549ab13ad1c4900f13f34e8f98363e9e95c73a8d1e623ec5a7a8c6f1afb39ad",
                           "2550bfd71ab50b22da1a252c69aee4d97817fb2b0244b72b3db6438ee54e8b3d"},
                          {"numbers",
                           4096,
                           {0xcbf96360, 0x555c63ec},
                           "moist-twilight",
                           "8434177",
                           115,
                           41,
                           3966,
                           17219,
                           3960,
                           3928,
                           "25ea15480accbf25b268d95999c94e570ca41dc4a2feb7b9ba862568a2598bdb",
                           "52589f79547972dfd2433e5df98817c74ba5a7c76ed5d60a80627a1bbf08a56b",
                           "3bb71495fe64eb97b40711bae6bdd640ad2fdb07df30f377ad6b201b1cd1a8e9"},
                          {"words",
                           1024,
                           {0x2f656561, 0x296e6247},
                           "remedial-vicar",
                           "profuse-coat",
                           19,
                           3,
                           859,
                           3489,
                           851,
                           819,
                           "2ae7693adc89e7bf2e78125e1a30e06e535a1f653ae22459eb373a5ec8a23893",
                           "b216d3ed3d8f92b1046a7c276b9a42c1a023077364a639dffc8d9f80ec32ff7c",
                           "d190c99ddd0e0bf9de51d146194ba85d10993c93503c0c7d8cd9a693624b6bc5"},
                          {"words",
                           4096,
                           {0x2f656561, 0x296e6247},
                           "remedial-vicar",
                           "profuse-coat",
                           108,
                           22,
                           3913,
                           16827,
                           3905,
                           3873,
                           "23364f32a50396accffedd4c19717d0a82db6cd7b2c8b5aa96efe2c3aeef9753",
                           "19559c5cadf1f9779333259f5cf221644d698e65749f3c2e583241b5222bbbdc",
                           "d06e947da9e2d7a91e653131a795a63b12469f2598745ee85681dedfc415aba3"},
                          {"uuids",
                           1024,
                           {0xdcaa69b8, 0x71e00ea5},
                           "snappy-balloon",
                           "dec8e071-4edc-4f5f-b272-3b1d83022f05",
                           23,
                           10,
                           893,
                           3729,
                           886,
                           850,
                           "6bc78199a8bee8854ca688a9226439269e2c357148b665ab6d1a1f2dc3d96f79",
                           "fc530798b10a733624ce06a6cd0c78b8f6ef8cdb73384f3e97582eeaa55bfd48",
                           "45bfdd15884f4b0b99b353b2a2ad73afbcf4628c0ca354e7c41b168c4f83fae1"},
                          {"uuids",
                           4096,
                           {0xdcaa69b8, 0x71e00ea5},
                           "snappy-balloon",
                           "dec8e071-4edc-4f5f-b272-3b1d83022f05",
                           119,
                           54,
                           3957,
                           16920,
                           3950,
                           3914,
                           "a4f59747bb0e78a329858598f792089739cd69d08a6f0b04d9b6bd90bfa0b376",
                           "eec07919098b2fce4663a8c905080effc372a1e99f96b887ccafea6ce67c170c",
                           "aba572e3b73963f45c968dc5e5721772ebe44a79be651da88ae18cc47bf7b11c"}};

TEST_CASE("prompts are the golden ones in all three instruction variants") {
  for (const Golden& golden : kGolden) {
    CAPTURE(golden.v_type, golden.length);
    Object options = {{"type_needle_v", golden.v_type}, {"input_seq_len", golden.length}};
    CHECK(DeriveKey(Make(options)->canon(), 42, 2) == golden.key);
    const auto record = [&](const char* inst) {
      options["inst"] = inst;
      return MakeRecord(options, 42, 2, 0);
    };
    const PromptRecord strong = record("strong");
    CHECK(strong.references == std::vector<std::string>{golden.value});
    CHECK(strong.answer == " " + golden.value);
    CHECK(strong.metadata.at("keys").as_array() == Array{golden.needle_key});
    CHECK(strong.metadata.at("num_units") == Value(golden.num_units));
    CHECK(strong.metadata.at("needle_units").as_array() == Array{golden.needle_unit});
    CHECK(strong.prompt_tokens == golden.strong_tokens);
    CHECK(std::ssize(strong.prompt + strong.answer_prefix) == golden.strong_chars);
    CHECK(PromptSha256(strong) == golden.strong_sha256);
    const PromptRecord original = record("original");
    CHECK(original.prompt_tokens == golden.original_tokens);
    CHECK(PromptSha256(original) == golden.original_sha256);
    const PromptRecord none = record("none");
    CHECK(none.prompt_tokens == golden.none_tokens);
    CHECK(PromptSha256(none) == golden.none_sha256);
  }
}

TEST_CASE("the haystack of the golden samples begins with the golden sentences") {
  const auto library = std::make_shared<TextLibrary>();
  const auto kjv = library->shipped_haystack(HaystackPart::kAll);
  const auto first_five = [&](const char* v_type) {
    const auto task = Make({{"type_needle_v", v_type}});
    SentenceOrder order(*kjv, HaystackMode::kShuffleSentence, 0,
                        {DeriveKey(task->canon(), 42, 2), 0}, 5);
    return std::vector<std::uint32_t>{order[0], order[1], order[2], order[3], order[4]};
  };
  CHECK(first_five("numbers") == std::vector<std::uint32_t>{29746, 14281, 4504, 3381, 19372});
  CHECK(first_five("words") == std::vector<std::uint32_t>{9190, 21483, 15439, 13972, 6642});
  CHECK(first_five("uuids") == std::vector<std::uint32_t>{532, 9542, 21406, 4834, 22405});
}

// Occurrences of `part` in `text`.
std::int64_t Count(std::string_view text, std::string_view part) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST_CASE("the longest context that fits is taken, to the unit") {
  const std::int64_t kBudget = 1024 - 128;
  for (const char* haystack : {"kjv", "noise", "needle"}) {
    for (const char* inst : {"original", "strong", "none"}) {
      CAPTURE(haystack, inst);
      const Object options = {{"type_haystack", haystack}, {"inst", inst}, {"fit_on", "self"}};
      for (std::uint64_t index = 0; index < 20; ++index) {
        const PromptRecord record = MakeRecord(options, 1, 2, index);
        const std::int64_t num_units = record.metadata.at("num_units").as_int();
        CHECK(record.prompt_tokens <= kBudget);
        CHECK(record.max_new_tokens == 128);
        if (haystack == std::string("kjv")) continue;
        // Lines: one more of the same kind would not fit. A line has 25 tokens or more.
        CHECK(record.prompt_tokens + 40 > kBudget);
        CHECK(num_units > 20);
      }
    }
  }
  // One token less than a sample needs drops its last sentence.
  const PromptRecord record = MakeRecord({{"inst", "strong"}}, 42, 2, 0);
  const std::int64_t exact = record.prompt_tokens + 128;
  CHECK(MakeRecord({{"inst", "strong"}, {"input_seq_len", exact}}, 42, 2, 0).prompt ==
        record.prompt);
  CHECK(MakeRecord({{"inst", "strong"}, {"input_seq_len", exact - 1}}, 42, 2, 0)
            .metadata.at("num_units")
            .as_int() == record.metadata.at("num_units").as_int() - 1);
}

TEST_CASE("several needles are all in the text and those asked for are the references") {
  const PromptRecord record =
      MakeRecord({{"num_needle_k", 4}, {"num_needle_v", 3}, {"num_needle_q", 2}}, 1, 0, 0);
  CHECK(Count(record.prompt, "One of the special magic numbers for ") == 12);
  CHECK(record.references.size() == 6);
  CHECK(record.distractors.size() == 6);
  for (const std::string& value : record.references) CHECK(Count(record.prompt, value) == 1);
  CHECK(record.prompt.starts_with("Some special magic numbers are hidden"));
  CHECK(record.answer_prefix.ends_with(" mentioned in the provided text are"));
  CHECK(Count(record.answer_prefix, ", and ") == 1);
  CHECK(Count(record.answer, ",") == 5);
  CHECK(record.metadata.at("keys").as_array().size() == 2);
}

TEST_CASE("a grid or a fixed depth puts the needle where it says") {
  for (std::uint64_t index : {0, 1, 2, 3, 4, 5}) {
    const PromptRecord record =
        MakeRecord({{"depth_mode", "grid"}, {"depth_grid", 5}}, 1, 2, index);
    const std::int64_t m = record.metadata.at("num_units").as_int();
    CHECK(record.metadata.at("needle_units").as_array().front().as_int() ==
          m * static_cast<std::int64_t>(index % 5) / 4);
  }
  const auto unit = [](const char* haystack, std::int64_t depth) {
    const PromptRecord record = MakeRecord(
        {{"type_haystack", haystack}, {"depth_mode", "fixed"}, {"depth", depth}}, 1, 2, 0);
    return std::pair(record.metadata.at("needle_units").as_array().front().as_int(),
                     record.metadata.at("num_units").as_int());
  };
  CHECK(unit("kjv", 0).first == 0);
  CHECK(unit("kjv", 100).first == unit("kjv", 100).second);
  CHECK(unit("noise", 0).first == 0);
  CHECK(unit("noise", 100).first == unit("noise", 100).second - 1);
}

TEST_CASE("settings of presentation leave needle and order of a sample alone") {
  const PromptRecord base = MakeRecord({}, 1, 2, 3);
  const PromptRecord longer =
      MakeRecord({{"input_seq_len", 4096}, {"tokenizer", "bytes"}}, 1, 2, 3);
  CHECK(longer.references == base.references);
  CHECK(longer.metadata.at("keys") == base.metadata.at("keys"));
  const PromptRecord fixed = MakeRecord({{"haystack_mode", "fixed"}}, 1, 2, 3);
  CHECK(fixed.references == base.references);
  CHECK(fixed.prompt.find("In the beginning God created the heaven and the earth.") !=
        std::string::npos);
}

TEST_CASE("phrases have as many words as asked for, in turn from both lists") {
  const auto value = [](std::int64_t num_words, const char* separator) {
    return MakeRecord(
               {{"type_needle_v", "words"}, {"phrase_words", num_words}, {"phrase_sep", separator}},
               42, 2, 0)
        .references.front();
  };
  CHECK(value(2, "hyphen") == "profuse-coat");
  CHECK(value(1, "hyphen") == "profuse");
  CHECK(value(2, "space") == "profuse coat");
  CHECK(value(6, "hyphen").starts_with("profuse-coat-"));
  CHECK(Count(value(6, "hyphen"), "-") == 5);
}

TEST_CASE("digit noise goes before the last character of as many sentences as it says") {
  const PromptRecord none = MakeRecord({{"input_seq_len", 4096}}, 1, 2, 0);
  const PromptRecord all = MakeRecord({{"input_seq_len", 4096}, {"digit_noise", 1}}, 1, 2, 0);
  const PromptRecord some = MakeRecord({{"input_seq_len", 4096}, {"digit_noise", 0.25}}, 1, 2, 0);
  CHECK(all.references == none.references);
  CHECK(Count(all.prompt, "). ") >= all.metadata.at("num_units").as_int() / 2);
  const auto share =
      static_cast<double>(Count(some.prompt, " (")) / some.metadata.at("num_units").as_double();
  CHECK(share > 0.1);
  CHECK(share < 0.45);
  CHECK(all.prompt_tokens <= 4096 - 128);
}

TEST_CASE("uuids are of version 4 and distractors have other keys") {
  const PromptRecord record = MakeRecord(
      {{"type_haystack", "needle"}, {"type_needle_k", "uuids"}, {"type_needle_v", "uuids"}}, 1, 2,
      0);
  REQUIRE(record.references.front().size() == 36);
  CHECK(record.references.front()[14] == '4');
  CHECK(std::string("89ab").find(record.references.front()[19]) != std::string::npos);
  const std::string& key = record.metadata.at("keys").as_array().front().as_string();
  CHECK(Count(record.prompt, " for " + key + " is: ") == 1);
  CHECK(std::ssize(record.distractors) == record.metadata.at("num_units").as_int());
  CHECK(Count(record.prompt, record.distractors.back()) == 1);
}

TEST_CASE("every broken rule has its message") {
  const auto rejection = [](const Object& options) {
    return Rejection([&] {
      const NiahParams params = NiahFields().Parse(options, "/task");
      Validate(params, "/task");
    });
  };
  CHECK(rejection({{"input_seq_len", 1}}) ==
        "/task: niah: input_seq_len must be in [2, 16777216] (input_seq_len=1)");
  CHECK(rejection({{"tokenizer", "file"}}) ==
        "/task: niah: tokenizer_file must be given with tokenizer file, and only then");
  CHECK(rejection({{"tokenizer_file", "x"}}) ==
        "/task: niah: tokenizer_file must be given with tokenizer file, and only then");
  CHECK(rejection({{"num_needle_k", 0}}) ==
        "/task: niah: num_needle_k must be in [1, 40] (num_needle_k=0)");
  CHECK(rejection({{"num_needle_v", 41}}) ==
        "/task: niah: num_needle_v must be in [1, 40] (num_needle_v=41)");
  CHECK(rejection({{"num_needle_k", 5}, {"num_needle_v", 9}}) ==
        "/task: niah: num_needle_k * num_needle_v must be <= 40 (num_needle_k=5, num_needle_v=9)");
  CHECK(rejection({{"num_needle_q", 2}}) ==
        "/task: niah: num_needle_q must be in [1, num_needle_k] (num_needle_q=2, num_needle_k=1)");
  CHECK(rejection({{"type_haystack", "file"}}) ==
        "/task: niah: haystack_file must be given with type_haystack file, and only then");
  CHECK(rejection({{"haystack_seed", -1}}) ==
        "/task: niah: haystack_seed must be >= 0 (haystack_seed=-1)");
  CHECK(rejection({{"depth_mode", "grid"}, {"num_needle_k", 2}}) ==
        "/task: niah: depth_mode grid and fixed need a single needle "
        "(num_needle_k=2, num_needle_v=1)");
  CHECK(rejection({{"depth_grid", 1}}) ==
        "/task: niah: depth_grid must be in [2, 1000] (depth_grid=1)");
  CHECK(rejection({{"depth", 101}}) == "/task: niah: depth must be in [0, 100] (depth=101)");
  CHECK(rejection({{"phrase_words", 7}}) ==
        "/task: niah: phrase_words must be in [1, 6] (phrase_words=7)");
  CHECK(rejection({{"digit_noise", 1.5}}) ==
        "/task: niah: digit_noise must be in [0, 1] (digit_noise=1.5)");
  const Object noise = {{"type_haystack", "noise"}};
  const auto with = [](Object options, const char* name, Value value) {
    options[name] = std::move(value);
    return options;
  };
  CHECK(rejection(with(noise, "haystack_mode", "fixed")) ==
        "/task: niah: haystack_mode acts only with running text (haystack_mode=fixed)");
  CHECK(rejection(with(noise, "digit_noise", 0.5)) ==
        "/task: niah: digit_noise acts only with running text (digit_noise=0.5)");
  CHECK(rejection({{"haystack_seed", 1}}) ==
        "/task: niah: haystack_seed acts only with haystack_mode fixed_perm and fixed_offset "
        "(haystack_seed=1)");
  CHECK(rejection({{"haystack_seed", 1}, {"haystack_mode", "fixed_offset"}}) == "");
  CHECK(rejection({{"depth_grid", 5}}) ==
        "/task: niah: depth_grid acts only with depth_mode grid (depth_grid=5)");
  CHECK(rejection({{"depth", 20}, {"depth_mode", "grid"}}) ==
        "/task: niah: depth acts only with depth_mode fixed (depth=20)");
  CHECK(rejection({{"phrase_words", 3}}) ==
        "/task: niah: phrase_words acts only with type_needle_v words (phrase_words=3)");
  CHECK(rejection({{"phrase_sep", "space"}, {"type_needle_v", "words"}, {"phrase_words", 1}}) ==
        "/task: niah: phrase_sep acts only with type_needle_v words and phrase_words > 1 "
        "(phrase_sep=space)");
  CHECK(rejection({{"phrase_sep", "space"}, {"type_needle_v", "words"}}) == "");
  CHECK(rejection({{"type_haystack", "essays"}}).starts_with("/task/type_haystack: unknown value"));
  CHECK(Rejection([] {
          Make({{"input_seq_len", 200}});
        }) == "niah: input_seq_len too small: needs at least 313 tokens (input_seq_len=200)");
}

TEST_CASE("a user's haystack is read once, keyed by its content, and named when it is missing") {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/haystack.txt";
  std::ofstream(path) << "First one here.\nSecond.\n\nThird and last.\n";
  const Object options = {{"type_haystack", "file"}, {"haystack_file", path}};
  const auto task = Make(options);
  CHECK(task->canon().starts_with("niah;haystack=file:"));
  const PromptRecord record = MakeRecord(options, 1, 2, 0);
  // Three sentences repeat until the prompt is full.
  CHECK(Count(record.prompt, "Third and last.") > 50);
  CHECK_THROWS_WITH(Make({{"type_haystack", "file"}, {"haystack_file", "/no/such"}}),
                    "/haystack_file: cannot read '/no/such'");
}

}  // namespace
}  // namespace mixerbench::tasks::niah
