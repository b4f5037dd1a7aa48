// SPDX-License-Identifier: Apache-2.0
#include "harness/device/gpu_health.h"

#include "harness/device/fake_gpu.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

using std::chrono::seconds;

// Time that passes by sleeping alone.
struct FakeTime {
  std::chrono::steady_clock::time_point now;
  WaitClock Clock() {
    return {.now = [this] { return now; }, .sleep = [this](auto time) { now += time; }};
  }
  std::int64_t Seconds() const {
    return std::chrono::duration_cast<seconds>(now.time_since_epoch()).count();
  }
};

struct Waited {
  HealthCheck check;
  std::int64_t seconds = 0;
  std::vector<std::string> said;
};

Waited Wait(FakeGpu& fake, FakeTime& time, double limit_s) {
  Waited waited;
  waited.check = WaitUntilIdle(fake.Monitor(), std::chrono::duration<double>(limit_s), time.Clock(),
                               [&](const std::string& text) { waited.said.push_back(text); });
  waited.seconds = time.Seconds();
  return waited;
}

TEST_CASE("wait for an idle GPU: at once a quiet stretch") {
  FakeGpu fake;
  FakeTime time;
  fake.busy_percent = [] { return 4; };
  const Waited waited = Wait(fake, time, 0);
  CHECK(waited.check.verdict == Verdict::kOk);
  CHECK(waited.check.text == "no other process and less than 5 % busy for 5 s");
  CHECK(waited.seconds == 5);
  CHECK(waited.said.empty());
}

TEST_CASE("wait for an idle GPU: until the last process has gone and the last kernel has ended") {
  FakeGpu fake;
  FakeTime time;
  fake.processes = [&] {
    const bool is_there = time.Seconds() < 40;
    return is_there ? std::vector<NvmlProcess>{{.pid = 4242, .used_bytes = 2ull << 30}}
                    : std::vector<NvmlProcess>();
  };
  fake.busy_percent = [&] { return time.Seconds() == 43 ? 5 : 0; };  // in the quiet stretch
  const Waited waited = Wait(fake, time, 60);
  CHECK(waited.check.verdict == Verdict::kOk);
  CHECK(waited.seconds == 49);
  CHECK(waited.said == std::vector<std::string>{"waiting for the GPU: pid 4242 (2 GiB)",
                                                "waiting for the GPU: pid 4242 (2 GiB)"});
}

TEST_CASE("wait for an idle GPU: when the time is over, who is there") {
  FakeGpu fake;
  FakeTime time;
  fake.processes = [] {
    return std::vector<NvmlProcess>{{.pid = 7, .used_bytes = 3ull << 20},
                                    {.pid = 8, .used_bytes = ~0ull}};
  };
  fake.busy_percent = [] { return 97; };
  const Waited waited = Wait(fake, time, 12.5);
  CHECK(waited.check.verdict == Verdict::kFail);
  CHECK(waited.check.text ==
        "busy after 12.5 s: pid 7 (3 MiB), pid 8 (memory not known), 97 % busy");
  CHECK(waited.seconds == 13);
}

TEST_CASE("wait for an idle GPU: no answer is no idle GPU") {
  FakeTime time;
  FakeGpu fake;
  fake.processes = [] { return std::nullopt; };
  CHECK(Wait(fake, time, 60).check.verdict == Verdict::kFail);
  const HealthCheck absent = WaitUntilIdle(GpuMonitor(), seconds(60), time.Clock(), [](auto&) {});
  CHECK(absent.verdict == Verdict::kFail);
  CHECK(absent.text == "the driver's libnvidia-ml.so.1 does not tell who uses the GPU");
  CHECK(time.Seconds() == 0);
}

TEST_CASE("wait for an idle GPU: part of a GPU, which tells of no utilisation") {
  FakeGpu fake;
  FakeTime time;
  fake.busy_percent = [] { return std::nullopt; };
  CHECK(Wait(fake, time, 0).check.verdict == Verdict::kOk);
}

TEST_CASE("clocks: what they are and why they are low") {
  FakeGpu fake;
  const HealthCheck full = CheckClocks("gpu 0 clocks", fake.Monitor());
  CHECK(full.verdict == Verdict::kOk);
  CHECK(full.text == "SM 1905 of 1980 MHz, memory ? of ? MHz, limit 700 W");
  fake.throttle = [] { return kGpuIdle | 0x4; };
  const HealthCheck capped = CheckClocks("gpu 0 clocks", fake.Monitor());
  CHECK(capped.verdict == Verdict::kOk);
  CHECK_THAT(capped.text, Catch::EndsWith("; lowered by gpu_idle, sw_power_cap"));
  fake.throttle = [] { return 0x40; };
  const HealthCheck hot = CheckClocks("gpu 0 clocks", fake.Monitor());
  CHECK(hot.verdict == Verdict::kWarn);
  CHECK_THAT(hot.text, Catch::Contains("hw_thermal_slowdown: it is too hot"));
  CHECK(CheckClocks("gpu 0 clocks", GpuMonitor()).verdict == Verdict::kWarn);
}

}  // namespace
}  // namespace mixerbench::harness
