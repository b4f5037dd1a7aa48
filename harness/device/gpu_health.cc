// SPDX-License-Identifier: Apache-2.0
#include "harness/device/gpu_health.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <thread>
#include <vector>

#include "io/text.h"

namespace mixerbench::harness {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds kBetweenLooks{1000};  // utilisation is of up to a second
constexpr std::chrono::seconds kBetweenWords{30};
constexpr const char* kUnknown = "the driver's libnvidia-ml.so.1 does not tell ";

std::string Clock(const std::string& name, const std::optional<std::int64_t>& now,
                  const std::optional<std::int64_t>& max) {
  const auto text = [](const auto& mhz) { return mhz ? fmt::format("{}", *mhz) : "?"; };
  return fmt::format("{} {} of {} MHz", name, text(now), text(max));
}

// Who keeps the GPU busy, "pid 7 (2.0 GiB), 97 % busy"; "" when nobody does; nothing when the
// driver does not tell.
std::optional<std::string> WhoIsThere(const GpuMonitor& gpu) {
  const auto processes = gpu.ComputeProcesses();
  if (!processes) return std::nullopt;
  std::vector<std::string> parts;
  for (const GpuProcess& process : *processes) {
    parts.push_back(fmt::format(
        "pid {} ({})", process.pid,
        process.used_bytes ? io::FormatBytes(*process.used_bytes) : "memory not known"));
  }
  const auto busy = gpu.UtilizationPercent();  // none of a part of a GPU (MIG)
  if (busy && *busy >= kBusyPercent) parts.push_back(fmt::format("{} % busy", *busy));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

HealthCheck CheckClocks(const std::string& name, const GpuMonitor& gpu) {
  const auto reasons = gpu.ThrottleReasons();
  if (!reasons) return {name, Verdict::kWarn, std::string(kUnknown) + "its clocks"};
  std::string text = Clock("SM", gpu.SmClockMhz(), gpu.MaxSmClockMhz()) + ", " +
                     Clock("memory", gpu.MemoryClockMhz(), gpu.MaxMemoryClockMhz());
  if (const auto watts = gpu.PowerLimitWatts()) text += fmt::format(", limit {:.0f} W", *watts);
  if (*reasons == 0) return {name, Verdict::kOk, text};
  text += fmt::format("; lowered by {}", fmt::join(ThrottleNames(*reasons), ", "));
  if ((*reasons & kSlowdown) == 0) return {name, Verdict::kOk, text};
  return {name, Verdict::kWarn, text + ": it is too hot or short of power, times say nothing"};
}

WaitClock WaitClock::OfMachine() {
  return {.now = [] { return std::chrono::steady_clock::now(); },
          .sleep = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }};
}

HealthCheck WaitUntilIdle(const GpuMonitor& gpu, std::chrono::duration<double> limit,
                          const WaitClock& clock,
                          const std::function<void(const std::string&)>& say) {
  const TimePoint start = clock.now();
  std::optional<TimePoint> quiet_since;
  std::optional<TimePoint> last_said;
  for (;; clock.sleep(kBetweenLooks)) {
    const auto who = WhoIsThere(gpu);
    if (!who) return {"idle", Verdict::kFail, std::string(kUnknown) + "who uses the GPU"};
    const TimePoint now = clock.now();
    if (who->empty()) {
      if (!quiet_since) quiet_since = now;
      if (now - *quiet_since < kQuietTime) continue;
      return {"idle", Verdict::kOk,
              fmt::format("no other process and less than {} % busy for {} s", kBusyPercent,
                          kQuietTime.count())};
    }
    quiet_since.reset();
    if (now - start >= limit) {
      return {"idle", Verdict::kFail, fmt::format("busy after {:g} s: {}", limit.count(), *who)};
    }
    if (!last_said || now - *last_said >= kBetweenWords) {
      say("waiting for the GPU: " + *who);
      last_said = now;
    }
  }
}

}  // namespace mixerbench::harness
