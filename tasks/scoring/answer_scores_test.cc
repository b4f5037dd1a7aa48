// Expected values are worked out by hand from the definitions in answer_scores.h.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/scoring/answer_scores.h"

#include <cmath>
#include <stdexcept>

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

// Sums of a few quotients.
constexpr double kExact = 1e-12;

TEST_CASE("responses are cleaned as RULER does") {
  CHECK(CleanResponse("  12\t34\x01\n ") == "12\n34");
  CHECK(CleanResponse(" \n\t ").empty());
  CHECK(CleanResponse("caf\xc3\xa9 ") == "caf\xc3\xa9");
}

TEST_CASE("match_all: the share of references contained, whatever their case") {
  CHECK(MatchAll("The values are 12 and FOO-bar.", {"12", "foo-BAR"}) == 1);
  CHECK(MatchAll("only 12", {"12", "34", "56", "78"}) == 0.25);
  CHECK(MatchAll("a 7-digit 1234567 hides 345", {"345"}) == 1);  // substrings count: 6.5
  CHECK(MatchAll("", {"1"}) == 0);
  CHECK(MatchAll("anything", {}) == 0);
}

TEST_CASE("first_match: the first piece of the answer's form decides") {
  CHECK(FirstMatch(" 8434177. Also 1111111", {"8434177"}, AnswerType::kNumber));
  CHECK_FALSE(FirstMatch(" 1111111, 8434177", {"8434177"}, AnswerType::kNumber));
  CHECK_FALSE(FirstMatch("84341770", {"8434177"}, AnswerType::kNumber));
  CHECK(FirstMatch("is 2 or 1", {"1", "2"}, AnswerType::kNumber));
  CHECK(FirstMatch("it is Profuse-Coat.", {"profuse-coat"}, AnswerType::kWord));
  CHECK_FALSE(FirstMatch("well-known: profuse-coat", {"profuse-coat"}, AnswerType::kWord));
  CHECK(FirstMatch("1. river 2. cloud", {"river"}, AnswerType::kWord));
  CHECK(FirstMatch(" Profuse coat.", {"profuse coat"}, AnswerType::kWord));
  CHECK(FirstMatch("1. profuse coat and more", {"profuse coat"}, AnswerType::kWord));
  CHECK_FALSE(FirstMatch("well known, profuse coat", {"profuse coat"}, AnswerType::kWord));
  CHECK_FALSE(FirstMatch("profuse", {"profuse coat"}, AnswerType::kWord));
  const std::string uuid = "dec8e071-4edc-4f5f-b272-3b1d83022f05";
  CHECK(FirstMatch("abc-def " + uuid + ".", {uuid}, AnswerType::kUuid));
  CHECK_FALSE(FirstMatch("0" + uuid, {uuid}, AnswerType::kUuid));
  CHECK(FirstMatch("VAR ABCDE and VWXYZ", {"ABCDE"}, AnswerType::kName));
  CHECK_FALSE(FirstMatch("VAR QQQQQ, ABCDE", {"ABCDE"}, AnswerType::kName));
  CHECK_FALSE(FirstMatch("nothing", {"1"}, AnswerType::kNumber));
  CHECK_FALSE(FirstMatch("nothing", {}, AnswerType::kNumber));
}

TEST_CASE("distractors are wrong values that were produced") {
  CHECK(HasDistractor("12 and 99", {"12"}, {"99"}));
  CHECK_FALSE(HasDistractor("12", {"12"}, {"99"}));
  CHECK_FALSE(HasDistractor("1234", {"1234"}, {"23"}));  // inside the right answer
  CHECK_FALSE(HasDistractor("12", {"12"}, {}));
}

TEST_CASE("prefix5: five times the share of the longest prefix") {
  CHECK(Prefix5("the number is 8434177.", {"8434177"}) == 5);
  CHECK(std::abs(Prefix5("843", {"8434177"}) - 5 * 3.0 / 7) < kExact);
  CHECK(std::abs(Prefix5("8", {"8434177"}) - 5.0 / 7) < kExact);
  CHECK(Prefix5("84", {"8434177"}, 3) == 0);
  CHECK(std::abs(Prefix5("843", {"8434177"}, 3) - 5 * 3.0 / 7) < kExact);
  CHECK(Prefix5("4177", {"8434177"}, 3) == 0);
  CHECK(Prefix5("ABC", {"abc"}) == 0);
  CHECK(Prefix5("12", {"12", "34"}) == 2.5);
  CHECK(Prefix5("", {"12"}) == 0);
}

TEST_CASE("prefix5: the longest prefix is that of the definition's loop") {
  const std::string needle = "aabaab";
  for (const std::string& text : {std::string("aab"), std::string("baaba"), std::string("bbb"),
                                  std::string("aabaabaab"), std::string("xaay")}) {
    double expected = 0;
    for (std::size_t length = needle.size(); length > 0; --length) {
      if (text.find(needle.substr(0, length)) == text.npos) continue;
      expected = 5 * static_cast<double>(length) / static_cast<double>(needle.size());
      break;
    }
    CHECK(std::abs(Prefix5(text, {needle}) - expected) < kExact);
  }
}

TEST_CASE("prefix5: chance scores responses against another sample's references") {
  const std::vector<std::string> responses = {"1111111", "1234567", "7777777"};
  const std::vector<References> references = {{"1111111"}, {"1234567"}, {"7777777"}};
  // 1111111 has "1" of 1234567; 1234567 has "7" of 7777777; 7777777 has nothing of 1111111.
  CHECK(std::abs(Prefix5Chance(responses, references) - 2 * (5.0 / 7) / 3) < kExact);
  CHECK(Prefix5Chance(responses, references, 3) == 0);
  CHECK_THROWS_AS(Prefix5Chance(std::span(responses).first(1), std::span(references).first(1)),
                  std::logic_error);
}

TEST_CASE("int_first: the first number") {
  CHECK(IntFirst(" 00123. 456", "123"));
  CHECK(IntFirst("0", "0"));
  CHECK_FALSE(IntFirst("456, 123", "123"));
  CHECK_FALSE(IntFirst("1234", "123"));
  CHECK_FALSE(IntFirst("none", "0"));
  CHECK(IntFirst("99999999999999999999999", "99999999999999999999999"));
}

TEST_CASE("exact answers end where the reference ends") {
  CHECK(ExactAnswer(" 7245551234\nNext: 1", "7245551234"));
  CHECK_FALSE(ExactAnswer("72455512345", "7245551234"));
  CHECK_FALSE(ExactAnswer("is 7245551234", "7245551234"));
  CHECK_FALSE(ExactAnswer("", "7"));
}

TEST_CASE("tok_exact_gen: the first tokens are the answer's") {
  const std::vector<std::int32_t> answer = {5, 6};
  CHECK(TokenExact(std::vector<std::int32_t>{5, 6, 9}, answer));
  CHECK_FALSE(TokenExact(std::vector<std::int32_t>{5}, answer));
  CHECK_FALSE(TokenExact(std::vector<std::int32_t>{6, 5, 6}, answer));
}

TEST_CASE("likelihood: every token greedy, and the mean negative log-probability") {
  const std::vector<TokenLikelihood> sure = {{-0.5, true}, {-1.5, true}};
  CHECK(ScoreLikelihood(sure).exact);
  CHECK(std::abs(ScoreLikelihood(sure).nll - 1.0) < kExact);
  const std::vector<TokenLikelihood> unsure = {{-0.5, true}, {-1.5, false}};
  CHECK_FALSE(ScoreLikelihood(unsure).exact);
  CHECK_THROWS_AS(ScoreLikelihood({}), std::logic_error);
}

}  // namespace
}  // namespace mixerbench::tasks
