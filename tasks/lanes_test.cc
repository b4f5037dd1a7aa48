// What samplers do with several lanes at once, on threads: picks and scans.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <barrier>
#include <vector>

#include "tasks/lane_pick.h"
#include "tasks/lane_scan.h"
#include "tasks/power_law.h"
#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

using Words32 = std::vector<std::uint32_t>;

const SampleStream kTestSample{DeriveKey("test", 0, 0), 0};

// Runs f(lanes) on `num_lanes` threads that share a sample.
template <typename Step>
void InLanes(std::int64_t num_lanes, const Step& step) {
  ThreadLanes::Barriers barriers;
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < num_lanes; ++rank) {
    threads.emplace_back([&, rank] { step(ThreadLanes(rank, num_lanes, barriers)); });
  }
}

// The lanes of a warp, made of CPU threads that meet twice to tell each other a word.
class ThreadWarp : public ThreadLanes {
 public:
  static constexpr bool kIsWarp = true;

  struct Shared {
    Barriers barriers;
    std::barrier<> meeting{kWarpLanes};
    std::array<std::uint32_t, kWarpLanes> words{};
  };

  ThreadWarp(std::uint32_t rank, Shared& shared)
      : ThreadLanes(rank, kWarpLanes, shared.barriers), rank_(rank), shared_(&shared) {}

  std::uint32_t rank() const { return rank_; }
  std::uint32_t CountTrue(bool x) const {
    const auto words = Exchange(x ? 1 : 0);
    return static_cast<std::uint32_t>(std::count(words.begin(), words.end(), 1));
  }
  std::uint32_t Read(std::uint32_t x, std::uint32_t lane) const { return Exchange(x).at(lane); }

 private:
  std::array<std::uint32_t, kWarpLanes> Exchange(std::uint32_t x) const {
    shared_->words[rank_] = x;
    shared_->meeting.arrive_and_wait();
    const auto words = shared_->words;
    shared_->meeting.arrive_and_wait();
    return words;
  }

  std::uint32_t rank_;
  Shared* shared_;
};

// Runs f(warp) on all threads of one.
template <typename Step>
void InWarp(const Step& step) {
  ThreadWarp::Shared shared;
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < kWarpLanes; ++rank) {
    threads.emplace_back([&, rank] { step(ThreadWarp(rank, shared)); });
  }
}

Words32 PickedAlone(std::uint32_t stream, std::uint32_t n, std::uint32_t k) {
  Words32 out(k);
  Words32 scratch(static_cast<std::size_t>(PickScratchWords(n, k)));
  Pick(kTestSample, stream, n, k, 0, out.data(), scratch.data());
  return out;
}

TEST_CASE("a pick by several lanes is that of one") {
  // Sparse, crowded (many swaps meet) and whole permutations, and more than a team takes on.
  for (const auto& [n, k] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {4095, 10}, {4096, 256}, {20, 15}, {5, 5}, {300, 300}, {1, 1}, {100000, 1025}}) {
    for (std::uint32_t stream = 0; stream < 20; ++stream) {
      const Words32 expected = PickedAlone(stream, n, k);
      for (const std::int64_t num_lanes : {1, 2, 7}) {
        Words32 out(k);
        Words32 scratch(static_cast<std::size_t>(PickTogetherScratchWords(n, k)));
        InLanes(num_lanes, [&](const auto& lanes) {
          PickTogether(lanes, kTestSample, stream, n, k, out.data(), scratch.data());
        });
        REQUIRE(out == expected);
      }
    }
  }
}

TEST_CASE("a pick by a warp is that of one lane") {
  // The last is more than a warp holds in registers.
  for (const auto& [n, k] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {4095, 10}, {33, 32}, {32, 32}, {1, 1}, {50, 40}}) {
    for (std::uint32_t stream = 0; stream < 2; ++stream) {
      Words32 out(k);
      Words32 scratch(static_cast<std::size_t>(PickTogetherScratchWords(n, k)));
      InWarp([&](const ThreadWarp& warp) {
        PickTogether(warp, kTestSample, stream, n, k, out.data(), scratch.data());
      });
      CHECK(out == PickedAlone(stream, n, k));
    }
  }
}

Words32 WeightedPicked(std::int64_t num_lanes, std::uint32_t stream, const Words32& weights,
                       std::uint32_t k) {
  const auto num_slots = static_cast<std::uint32_t>(weights.size());
  const Words32 sums = WeightSums(weights);
  Words32 out(k);
  Words32 scratch(sums.size());
  const auto pick = [&](const auto& lanes) {
    WeightedPick(lanes, kTestSample, stream, sums.data(), num_slots, k, out.data(), scratch.data());
  };
  num_lanes == 1 ? pick(OneLane{}) : InLanes(num_lanes, pick);
  return out;
}

TEST_CASE("sums of weights: of the blocks before, and within every block") {
  Words32 weights(40, 2);
  weights[1] = 5;
  const Words32 sums = WeightSums(weights);
  REQUIRE(std::ssize(sums) == WeightSumsWords(40));
  CHECK(Words32(sums.begin(), sums.begin() + 6) == Words32{0, 67, 2, 7, 9, 11});
  CHECK(sums[2 + 31] == 67);
  CHECK(sums[2 + 32] == 2);
  CHECK(sums[2 + 39] == 16);
  CHECK(sums.back() == 16);  // padding repeats the sum
}

TEST_CASE("weighted picks by several lanes are those of one, until every slot is taken") {
  for (const std::int64_t num_slots : {1, 31, 32, 33, 100, 1100}) {
    for (const double exponent : {0.01, 1.0, 3.0}) {
      const Words32 weights = PowerLawWeights(num_slots, exponent);
      const auto k = static_cast<std::uint32_t>(num_slots);
      CHECK(WeightedPicked(4, 3, weights, k) == WeightedPicked(1, 3, weights, k));
    }
  }
}

TEST_CASE("weighted picks by a warp are those of one lane") {
  // As many slots as a warp holds in registers, one more, and more picks than lanes.
  for (const auto& [num_slots, k] : std::vector<std::pair<std::int64_t, std::uint32_t>>{
           {1, 1}, {31, 5}, {128, 5}, {129, 5}, {40, 35}}) {
    const Words32 weights = PowerLawWeights(num_slots, 0.01);
    const Words32 sums = WeightSums(weights);
    Words32 out(k);
    Words32 scratch(sums.size());
    InWarp([&, slots = static_cast<std::uint32_t>(num_slots)](const ThreadWarp& warp) {
      WeightedPick(warp, kTestSample, 3, sums.data(), slots, static_cast<std::uint32_t>(out.size()),
                   out.data(), scratch.data());
    });
    CHECK(out == WeightedPicked(1, 3, weights, k));
  }
}

TEST_CASE("a scan combines in order, whatever the number of lanes") {
  // x -> a x + b modulo 101: associative, not commutative.
  using Affine = ScanState<2>;
  const auto load = [](std::int64_t i) {
    return Affine{{static_cast<std::uint32_t>(i % 100 + 1), static_cast<std::uint32_t>(i % 7)}};
  };
  const auto then = [](const Affine& f, const Affine& g) {
    return Affine{{f.words[0] * g.words[0] % 101, (f.words[1] * g.words[0] + g.words[1]) % 101}};
  };
  for (const std::int64_t count : {0, 1, 5, 31, 32, 33, 200}) {
    Words32 expected;
    std::uint32_t value = 5;
    for (std::int64_t i = 0; i < count; ++i) {
      value = (load(i).words[0] * value + load(i).words[1]) % 101;
      expected.push_back(value);
    }
    for (const std::int64_t num_lanes : {1, 2, 5, 40}) {
      Words32 values(static_cast<std::size_t>(count));
      Words32 scratch(static_cast<std::size_t>(ScanScratchWords<2>()));
      const auto scan = [&](const auto& lanes) {
        InclusiveScan(lanes, count, Affine{{1, 0}}, load, then, scratch.data(),
                      [&](std::int64_t i, const Affine& f) {
                        values[static_cast<std::size_t>(i)] = (f.words[0] * 5 + f.words[1]) % 101;
                      });
      };
      InLanes(num_lanes, scan);
      CHECK(values == expected);
      scan(OneLane{});
      CHECK(values == expected);
    }
  }
}

}  // namespace
}  // namespace mixerbench::tasks
