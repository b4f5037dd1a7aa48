// SPDX-License-Identifier: Apache-2.0
#include "tasks/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "tasks/canon.h"
#include "tasks/generate.h"
#include "tasks/lane_pick.h"
#include "tasks/power_law.h"
#include "tasks/sampler.h"
#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

using Numbers = std::vector<std::uint32_t>;

const SampleStream kTestSample{DeriveKey("test", 0, 0), 0};

Numbers Drawn(std::uint32_t stream, std::uint32_t count, std::uint32_t n) {
  Numbers numbers;
  for (std::uint32_t j = 0; j < count; ++j) numbers.push_back(Uniform(kTestSample, stream, j, n));
  return numbers;
}

Numbers Picked(const SampleStream& sample, std::uint32_t stream, std::uint32_t n, std::uint32_t k,
               std::uint32_t base = 0) {
  Numbers out(k);
  Numbers scratch(static_cast<std::size_t>(PickScratchWords(n, k)));
  Pick(sample, stream, n, k, base, out.data(), scratch.data());
  return out;
}

Numbers WeightedPicked(const SampleStream& sample, std::uint32_t stream, const Numbers& weights,
                       std::uint32_t k) {
  const auto num_slots = static_cast<std::uint32_t>(weights.size());
  const Numbers sums = WeightSums(weights);
  Numbers out(k);
  Numbers scratch(sums.size());
  WeightedPick(OneLane{}, sample, stream, sums.data(), num_slots, k, out.data(), scratch.data());
  return out;
}

TEST_CASE("philox gives the known answers of Random123") {
  struct Case {
    std::array<std::uint32_t, 4> counter;
    PhiloxKey key;
    std::array<std::uint32_t, 4> expected;
  };
  const std::vector<Case> cases = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const auto& [counter, key, expected] : cases) {
    const PhiloxBlock block = Philox4x32(counter[0], counter[1], counter[2], counter[3], key);
    CHECK(std::equal(expected.begin(), expected.end(), block.words));
  }
}

TEST_CASE("hashes give their known answers") {
  CHECK(Fnv1a64("") == 0xcbf29ce484222325u);
  CHECK(Fnv1a64("a") == 0xaf63dc4c8601ec8cu);
  CHECK(Fnv1a64("foobar") == 0x85944171f73967e8u);
  CHECK(Mix64(1) == 0x5692161d100b05e5u);
  CHECK(Mix64(0x9E3779B97F4A7C15u) == 0xe220a8397b1dcdafu);
}

TEST_CASE("keys match the golden vectors") {
  const std::string mqar = "mqar;L=64;kv=4;passes=1;power_a=0.01;vocab=8192";
  CHECK(Fnv1a64("test") == 0xf9e6e6ef197c2b25u);
  CHECK(DeriveKey("test", 0, 0) == PhiloxKey{0xa1512017, 0x4fe323b2});
  CHECK(Fnv1a64(mqar) == 0x4c0776dbba46b5dau);
  CHECK(DeriveKey(mqar, 123, 0) == PhiloxKey{0x9befba0e, 0xc8036adc});
  CHECK(DeriveKey(mqar, 123, 2) == PhiloxKey{0x9112a297, 0x915bcc8c});
  CHECK(Fnv1a64("order") == 0x6be60d7281a829f7u);
  CHECK(DeriveKey("order", 123, 0) == PhiloxKey{0xd47c5798, 0x6adc36ec});
  CHECK(Fnv1a64("haystack;kjv") == 0x9ead1293613e96f5u);
  CHECK(DeriveKey("haystack;kjv", 0, 0) == PhiloxKey{0x23965ee5, 0xf617f6f2});
}

TEST_CASE("raw words match the golden vectors") {
  const Numbers first = {0x77c09c7e, 0xd8673e80, 0xf6b2adad, 0xaa3e648a, 0xc80bf5ec, 0x5f90478b};
  const Numbers fifth = {0x2ac5d72a, 0xeb4a8201, 0xd3f23076, 0xec4f87c3};
  const Numbers late = {0xf1922f97, 0x677a9877, 0x699ba250, 0xa5906a60};
  const SampleStream late_sample{kTestSample.key, (std::uint64_t{1} << 32) + 5};
  WordReader reader(kTestSample, 0);
  for (std::uint32_t j = 0; j < first.size(); ++j) {
    CHECK(Word(kTestSample, 0, j) == first[j]);
    CHECK(reader.Word(j) == first[j]);
  }
  for (std::uint32_t j = 0; j < 4; ++j) {
    CHECK(Word(kTestSample, 5, j) == fifth[j]);
    CHECK(Word(late_sample, 0, j) == late[j]);
  }
}

TEST_CASE("sixteen words together are the same words") {
  for (const std::uint32_t block : {0u, 1u, 0x3FFFFFF0u}) {
    std::uint32_t words[16];
    SixteenWords(kTestSample, 5, block, words);
    for (std::uint32_t i = 0; i < 16; ++i) CHECK(words[i] == Word(kTestSample, 5, 4 * block + i));
  }
}

TEST_CASE("words are visited once each, in order by one lane") {
  for (const std::uint32_t first : {0u, 1u, 3u, 4u, 17u}) {
    for (const std::uint32_t count : {0u, 1u, 3u, 16u, 21u, 67u}) {
      Numbers visited;
      ForEachWord(OneLane{}, kTestSample, 2, first, first + count,
                  [&](std::uint32_t j, std::uint32_t word) {
                    visited.push_back(j);
                    CHECK(word == Word(kTestSample, 2, j));
                  });
      Numbers expected(count);
      std::iota(expected.begin(), expected.end(), first);
      CHECK(visited == expected);
    }
  }
}

TEST_CASE("bounded integers match the golden vectors, retries included") {
  CHECK(Drawn(0, 12, 10) == Numbers{4, 8, 9, 6, 7, 3, 6, 7, 6, 5, 1, 2});
  CHECK(Drawn(0, 8, 3000000000u) == Numbers{1403348295, 2535976141, 2044011934, 1995043612,
                                            2985584176, 1119885839, 2096045915, 2145855063});
  CHECK(Drawn(1, 8, 2147483649u) == Numbers{1082016634, 395160100, 2051737601, 255912006,
                                            1331520900, 131916718, 1581698315, 784254903});
  CHECK(Drawn(0, 4, 1) == Numbers{0, 0, 0, 0});
}

TEST_CASE("bernoulli draws match the golden vector; 0 never fires and 1 always does") {
  std::string events;
  for (std::uint32_t j = 0; j < 20; ++j) {
    events += Bernoulli(kTestSample, 2, j, BernoulliThreshold(0.2)) ? '1' : '0';
  }
  CHECK(events == "00000011000010001010");
  CHECK_FALSE(BernoulliFromWord(0, BernoulliThreshold(0)));
  CHECK(BernoulliFromWord(0xFFFFFFFFu, BernoulliThreshold(1)));
}

TEST_CASE("picks match the golden vectors, of a whole set as well") {
  CHECK(Picked(kTestSample, 3, 4095, 10) ==
        Numbers{3065, 1818, 261, 1480, 1777, 3949, 1004, 3357, 3136, 1545});
  CHECK(Picked(kTestSample, 4, 5, 5) == Numbers{1, 4, 2, 3, 0});
  CHECK(Picked(kTestSample, 6, 12, 12) == Numbers{5, 4, 10, 11, 1, 6, 0, 7, 3, 8, 2, 9});
}

TEST_CASE("a pick is the head of the dense Fisher-Yates shuffle with the same draws") {
  for (std::uint64_t index = 0; index < 50; ++index) {
    const SampleStream sample{kTestSample.key, index};
    const std::uint32_t n = 1 + Uniform(sample, 1, 0, 60);
    const std::uint32_t k = 1 + Uniform(sample, 1, 1, n);
    const std::uint32_t base = Uniform(sample, 1, 2, 7);
    CAPTURE(index, n, k, base);
    Numbers dense(n);
    std::iota(dense.begin(), dense.end(), 0u);
    for (std::uint32_t t = 0; t < k; ++t) {
      std::swap(dense[t], dense[t + Uniform(sample, 2, base + t, n - t)]);
    }
    dense.resize(k);
    CHECK(Picked(sample, 2, n, k, base) == dense);
  }
}

TEST_CASE("a pick of few is the same pick") {
  for (std::uint64_t index = 0; index < 200; ++index) {
    const SampleStream sample{kTestSample.key, index};
    const std::uint32_t n = 1 + Uniform(sample, 1, 0, 100);
    const std::uint32_t k = 1 + Uniform(sample, 1, 1, std::min(n, kMaxFew));
    const std::uint32_t base = 16 * Uniform(sample, 1, 2, 7);
    CAPTURE(index, n, k, base);
    Numbers few(k);
    PickFew(sample, 2, n, k, base, few.data());
    CHECK(few == Picked(sample, 2, n, k, base));
  }
}

TEST_CASE("feistel matches the golden vectors and is a bijection") {
  const auto image = [](const SampleStream& sample, std::uint32_t stream, std::uint64_t n,
                        std::uint64_t count) {
    std::vector<std::uint64_t> values;
    for (std::uint64_t x = 0; x < count; ++x) values.push_back(Feistel(sample, stream, n, x));
    return values;
  };
  using Values = std::vector<std::uint64_t>;
  CHECK(image(kTestSample, 7, 10, 10) == Values{6, 3, 7, 4, 1, 0, 5, 2, 9, 8});
  CHECK(image(kTestSample, 7, 29756, 8) ==
        Values{24882, 23663, 5108, 22007, 28800, 7929, 11663, 18372});
  CHECK(image({DeriveKey("order", 123, 0), 0}, kOrderStream, 100000, 5) ==
        Values{76418, 52382, 74455, 2168, 26249});
  for (const std::uint64_t n : {1, 2, 3, 4, 5, 16, 17, 1000}) {
    CAPTURE(n);
    const Values values = image(kTestSample, 9, n, n);
    CHECK(std::set<std::uint64_t>(values.begin(), values.end()).size() == n);
    CHECK(*std::max_element(values.begin(), values.end()) == n - 1);
  }
}

TEST_CASE("an order visits every sample once an epoch and differs between epochs") {
  const SampleOrder order{.size = 100, .key = DeriveKey("order", 1, 0), .epoch = 3};
  std::vector<std::uint64_t> first;
  std::vector<std::uint64_t> second;
  for (std::uint64_t x = 0; x < 100; ++x) {
    first.push_back(SampleAt(order, x));
    second.push_back(SampleAt(order, 100 + x));
  }
  CHECK(std::set<std::uint64_t>(first.begin(), first.end()).size() == 100);
  CHECK(std::set<std::uint64_t>(second.begin(), second.end()).size() == 100);
  CHECK(first != second);
  CHECK(second[7] == SampleAt({.size = 100, .key = order.key, .epoch = 4}, 7));
  CHECK(SampleAt({}, 12345) == 12345);
}

TEST_CASE("power-law tables match the golden vectors") {
  const Numbers table = PowerLawWeights(28, 0.01);
  CHECK(table == Numbers{539137349, 271443673, 181697678, 136665857, 109576927, 91480743,
                         78533031,  68808222,  61234946,  55169548,  50201959,  46058521,
                         42549602,  39539636,  36929130,  34643411,  32625336,  30830435,
                         29223576,  27776641,  26466854,  25275571,  24187382,  23189442,
                         22270954,  21422779,  20637130,  19907328});
  struct Row {
    std::int64_t num_slots;
    std::uint32_t first, last, total;
    std::string sha256;
  };
  const std::vector<Row> rows = {{28, 539137349, 19907328, 2147483661, "5d9b8105359249b4"},
                                 {24, 561149250, 24136221, 2147483661, "ca0607d674397048"},
                                 {16, 627980333, 40352204, 2147483657, "d0342b8e947b704a"},
                                 {56, 457571289, 8506534, 2147483676, "4ea420739448cec9"},
                                 {32, 521351324, 16866774, 2147483666, "c3d3480533cf11ab"},
                                 {112, 396745259, 3713522, 2147483710, "c29cb46a6088f1f4"},
                                 {96, 408885088, 4458131, 2147483697, "e99d6477392918e8"},
                                 {64, 444504410, 7240323, 2147483677, "84ccc2c7f7bf4b91"},
                                 {224, 349776126, 1648332, 2147483762, "853067b3a8f02e04"},
                                 {192, 359268065, 1972198, 2147483743, "a8cae8601f1be38f"},
                                 {128, 386777151, 3171926, 2147483713, "a9b37bcd524ba40e"},
                                 {256, 341936708, 1411849, 2147483781, "9f4f415eac3b8837"},
                                 {512, 306147277, 636434, 2147483913, "2d028b121f565b3f"}};
  for (const Row& row : rows) {
    CAPTURE(row.num_slots);
    const Numbers weights = PowerLawWeights(row.num_slots, 0.01);
    CHECK(weights.front() == row.first);
    CHECK(weights.back() == row.last);
    CHECK(std::accumulate(weights.begin(), weights.end(), std::uint32_t{0}) == row.total);
    Sha256 hash;
    hash.Update(std::as_bytes(std::span(weights)));
    CHECK(hash.Hex().substr(0, 16) == row.sha256);
  }
}

TEST_CASE("power-law tables are exact where the exact share is a whole number") {
  CHECK(PowerLawWeights(4, 1) == Numbers(4, (1u << 29) + 1));
  CHECK(PowerLawWeights(1, 0.01) == Numbers{(1u << 31) + 1});
  CHECK(PowerLawWeights(3, 2) == Numbers{357913942, 715827883, 1073741825});  // 1 : 2 : 3
}

TEST_CASE("power-law tables survive exponents whose powers overflow") {
  for (const double exponent : {1e6, 1e308}) {
    CHECK(PowerLawWeights(3, exponent) == Numbers{1, 1, (1u << 31) + 1});
  }
}

TEST_CASE("weighted picks match the golden vectors") {
  const Numbers table = PowerLawWeights(28, 0.01);
  CHECK(WeightedPicked(kTestSample, 8, table, 4) == Numbers{15, 10, 6, 0});
  CHECK(WeightedPicked(kTestSample, 9, table, 28) == Numbers{0, 1,  7,  4,  10, 6,  23, 20, 22, 12,
                                                             2, 5,  8,  3,  15, 18, 11, 16, 25, 27,
                                                             9, 19, 24, 13, 26, 14, 21, 17});
}

TEST_CASE("a weighted pick is the prefix-sum scan with the same draws") {
  for (std::uint64_t index = 0; index < 50; ++index) {
    const SampleStream sample{kTestSample.key, index};
    const std::uint32_t num_slots = 1 + Uniform(sample, 1, 0, 100);
    const std::uint32_t k = 1 + Uniform(sample, 1, 1, num_slots);
    CAPTURE(index, num_slots, k);
    Numbers weights;
    for (std::uint32_t g = 0; g < num_slots; ++g) weights.push_back(1 + Uniform(sample, 2, g, 99));
    const Numbers picked = WeightedPicked(sample, 3, weights, k);
    std::uint32_t total = std::accumulate(weights.begin(), weights.end(), std::uint32_t{0});
    Numbers scanned;
    for (std::uint32_t t = 0; t < k; ++t) {
      std::uint32_t rest = Uniform(sample, 3, t, total);
      std::uint32_t slot = 0;
      for (; weights[slot] <= rest; ++slot) rest -= weights[slot];
      scanned.push_back(slot);
      total -= weights[slot];
      weights[slot] = 0;
    }
    CHECK(picked == scanned);
  }
}

TEST_CASE("bounded integers are uniform") {
  constexpr std::uint32_t kNumDraws = 1000000;
  for (const std::uint32_t n : {2u, 3u, 10u, 4095u, 8192u}) {
    CAPTURE(n);
    std::vector<double> counts(n, 0.0);
    for (std::uint32_t j = 0; j < kNumDraws; ++j) ++counts[Uniform(kTestSample, 10, j, n)];
    const double deviate =
        ChiSquareDeviate(counts, std::vector<double>(n, static_cast<double>(kNumDraws) / n));
    CHECK(std::abs(deviate) < kMaxDeviate);
  }
}

TEST_CASE("all permutations of five are equally likely") {
  constexpr std::uint64_t kNumDraws = 120000;
  std::map<Numbers, double> counts;
  for (std::uint64_t index = 0; index < kNumDraws; ++index) {
    ++counts[Picked({kTestSample.key, index}, 11, 5, 5)];
  }
  REQUIRE(counts.size() == 120);
  std::vector<double> observed;
  for (const auto& [permutation, count] : counts) observed.push_back(count);
  CHECK(std::abs(ChiSquareDeviate(observed, std::vector<double>(120, 1000.0))) < kMaxDeviate);
}

TEST_CASE("the first weighted pick follows the weights") {
  constexpr std::uint64_t kNumDraws = 100000;
  const Numbers weights = PowerLawWeights(28, 0.01);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> observed(28, 0.0);
  std::vector<double> expected;
  for (std::uint64_t index = 0; index < kNumDraws; ++index) {
    ++observed[WeightedPicked({kTestSample.key, index}, 12, weights, 1)[0]];
  }
  for (const std::uint32_t weight : weights) {
    expected.push_back(static_cast<double>(kNumDraws) * weight / total);
  }
  CHECK(std::abs(ChiSquareDeviate(observed, expected)) < kMaxDeviate);
}

TEST_CASE("heap sort sorts") {
  for (std::uint32_t count = 0; count < 40; ++count) {
    CAPTURE(count);
    Numbers words = Drawn(13, count, 20);
    Numbers sorted = words;
    std::sort(sorted.begin(), sorted.end());
    SortWords(words.data(), count);
    CHECK(words == sorted);
  }
}

TEST_CASE("reals are written as the shortest plain decimal") {
  CHECK(FormatReal(0.01) == "0.01");
  CHECK(FormatReal(0.2) == "0.2");
  CHECK(FormatReal(0) == "0");
  CHECK(FormatReal(3) == "3");
  CHECK(FormatReal(0.00001) == "0.00001");
  CHECK(FormatReal(1e22) == "10000000000000000000000");
  CHECK(FormatReal(0.1 + 0.2) == "0.30000000000000004");
}

TEST_CASE("canonical strings list the parameters in byte order") {
  const std::string text =
      Canon("mqar").Real("power_a", 0.01).Flag("on", true).Integer("kv", 4).Integer("L", 64).Text();
  CHECK(text == "mqar;L=64;kv=4;on=1;power_a=0.01");
}

}  // namespace
}  // namespace mixerbench::tasks
