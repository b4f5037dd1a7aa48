// SPDX-License-Identifier: Apache-2.0
#include "harness/run/eta.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const Eta::CellType kSmall = {"train", "small"};
const Eta::CellType kLarge = {"train", "large"};
const Eta::CellType kSpeed = {"throughput", "small"};

// A cell that was watched from its start.
Eta::Running Watched(const Eta::CellType& type, double elapsed_s, double share) {
  return {.type = type,
          .elapsed_s = elapsed_s,
          .share_done = share,
          .share_seen = share,
          .seen_s = elapsed_s};
}

TEST_CASE("eta: nothing is claimed of cells of which nothing is known") {
  const Eta eta(2, 1);
  CHECK(FormatLeft(eta.Estimate({}, {})) == "0s");
  CHECK(FormatLeft(eta.Estimate({{.type = kSmall, .elapsed_s = 5}}, {})) == "?");
  Eta after_training(1, 1);
  after_training.Add(kSmall, 100);
  CHECK(FormatLeft(after_training.Estimate({}, {{kSmall}, {{"throughput", "other"}}})) ==
        "> 1m40s");
}

TEST_CASE(
    "eta: waiting cells take what their group took, else what their kind took, slot by slot") {
  Eta eta(2, 1);
  eta.Add(kSmall, 10);
  eta.Add(kLarge, 100);
  eta.Add(kLarge, 140);
  CHECK(eta.Estimate({}, {{kSmall}, {kSmall}, {kLarge}}).seconds == Approx(130));
  CHECK(eta.Estimate({}, {{{"train", "new"}}}).seconds == Approx(250.0 / 3));
  CHECK(!eta.Estimate({}, {{kSmall}}).at_least);
}

TEST_CASE("eta: the last long cell is not hidden by many short ones") {
  Eta eta(2, 1);
  for (int i = 0; i < 20; ++i) eta.Add(kSmall, 10);
  // A quarter done after 70 s: 210 s are left, whatever the mean of the others is.
  const auto left = eta.Estimate({Watched(kLarge, 70, 0.25)}, {{kSmall}});
  CHECK(left.seconds == Approx(210));
  CHECK(!left.at_least);
}

TEST_CASE("eta: running cells tell of those that wait") {
  const Eta eta(1, 1);
  const auto left = eta.Estimate({Watched(kLarge, 50, 0.5)}, {{kLarge}, {{"train", "other"}}});
  CHECK(left.seconds == Approx(50 + 100 + 100));
}

TEST_CASE("eta: early stopping of a group shortens its running cells until they outlast it") {
  Eta eta(1, 1);
  eta.Add(kLarge, 40);
  CHECK(eta.Estimate({Watched(kLarge, 30, 0.1)}, {}).seconds == Approx(10));
  CHECK(eta.Estimate({Watched(kLarge, 50, 0.2)}, {}).seconds == Approx(200));
  // It scores its test data now.
  CHECK(FormatLeft(eta.Estimate({Watched(kLarge, 90, 1)}, {})) == "?");
}

TEST_CASE("eta: a cell that continues is judged by what it did since") {
  Eta::Running cell = {
      .type = kLarge, .elapsed_s = 12, .share_done = 0.9, .share_seen = 0.1, .seen_s = 10};
  CHECK(Eta(1, 1).Estimate({cell}, {}).seconds == Approx(10));
  Eta eta(1, 1);
  eta.Add(kLarge, 100);
  CHECK(eta.Estimate({cell}, {}).seconds == Approx(100 * 0.2 - 12));
}

TEST_CASE("eta: what needs a worker to itself waits for none of its neighbours") {
  Eta eta(2, 4);
  eta.Add(kSmall, 10);
  eta.Add(kSpeed, 60);
  CHECK(eta.Estimate({}, std::vector<Eta::Waiting>(8, {kSmall})).seconds == Approx(10));
  CHECK(eta.Estimate({}, {{kSmall}, {kSpeed, true}, {kSpeed, true}}).seconds == Approx(70));
}

TEST_CASE("eta: durations for people") {
  CHECK(FormatDuration(12.4) == "12s");
  CHECK(FormatDuration(200) == "3m20s");
  CHECK(FormatDuration(3840) == "1h04m");
}

TEST_CASE("eta: device time counts what shares a device once, and each device") {
  Eta eta(/*num_workers=*/2, /*cells_per_worker=*/4);
  const Eta::CellType train = {"train", "a"}, timed = {"throughput", "a"};
  eta.Add(train, 80);
  eta.Add(timed, 10);
  const auto seconds = [&](std::vector<Eta::Waiting> waiting) {
    return eta.DeviceTime(waiting).seconds;
  };
  CHECK(seconds(std::vector<Eta::Waiting>(8, {train})) == 8 * 80 / 4);
  CHECK(seconds(std::vector<Eta::Waiting>(2, {train})) == 2 * 80);  // one on each
  CHECK(seconds(std::vector<Eta::Waiting>(4, {timed, true})) == 4 * 10);
  CHECK_FALSE(eta.DeviceTime({{train}}).at_least);
  CHECK(eta.DeviceTime({{train}, {{"analyse", "a"}}}).at_least);
}

}  // namespace
}  // namespace mixerbench::harness
