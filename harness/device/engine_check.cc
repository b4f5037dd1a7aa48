// SPDX-License-Identifier: Apache-2.0
#include "harness/device/engine_check.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>

#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <torch/headeronly/version.h>

#include "harness/device/device.h"
#include "harness/device/gpu_health.h"
#include "harness/device/gpu_monitor.h"

namespace mixerbench::harness {
namespace {

// The oldest GPU that device code is compiled for.
constexpr int kLeastComputeCapability = 8;

// Small whole numbers, [n,n].
at::Tensor Numbers(std::int64_t n, std::int64_t modulus) {
  return at::arange(n * n, at::kLong).remainder(modulus).reshape({n, n});
}

// "" when a product of whole numbers on the device is exact, and the same twice.
std::string WrongProduct(at::Device device) {
  constexpr std::int64_t kSize = 96;
  const at::Tensor a = Numbers(kSize, 7);
  const at::Tensor b = Numbers(kSize, 5);
  const at::Tensor exact = at::matmul(a, b);  // of integers: no library of products is behind it
  const auto on_device = [&](const at::Tensor& t) { return t.to(device, at::kFloat); };
  const at::Tensor product = at::matmul(on_device(a), on_device(b));
  if (!at::equal(product.cpu().to(at::kLong), exact)) return "a matrix product is wrong";
  const at::Tensor fractions = on_device(a).div(7);
  const bool repeats = at::equal(at::matmul(fractions, product), at::matmul(fractions, product));
  return repeats ? "" : "a matrix product has other bits the second time";
}

HealthCheck CheckLibtorch() {
  const std::string wrong = WrongProduct(at::kCPU);
  if (!wrong.empty()) return {"libtorch", Verdict::kFail, wrong};
  return {"libtorch", Verdict::kOk,
          std::string(TORCH_VERSION) + " for " + at::get_cpu_capability() +
              ", computes on the CPU and repeats its bits"};
}

bool HasGpuNode() {
  std::error_code error;  // none there: no entries
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("nvidia") && name.size() > 6 && name[6] >= '0' && name[6] <= '9') {
      return true;
    }
  }
  return false;
}

HealthCheck CheckCudaBuild() {
  if (!BuiltWithCuda()) {
    if (!HasGpuNode()) return {"cuda", Verdict::kOk, "built without it, and there is no GPU"};
    return {"cuda", Verdict::kWarn,
            "there is a GPU, but this program was built without CUDA; build with --config=cuda, as "
            "./mixerbench does"};
  }
  const Value versions = CudaVersions();
  const std::string driver = versions.Find("driver")->as_string();
  const std::string runtime = versions.Find("runtime")->as_string();
  const std::string found = "runtime " + runtime + ", driver for " + driver;
  if (CountGpus() == 0) return {"cuda", Verdict::kWarn, found + ", no GPU that it can use"};
  // Within a major version an older driver serves a newer runtime.
  if (std::atoi(driver.c_str()) < std::atoi(runtime.c_str())) {
    return {"cuda", Verdict::kFail, found + ": the driver is too old for this build"};
  }
  return {"cuda", Verdict::kOk, found};
}

HealthCheck CheckGpu(int index) {
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  const std::string name = "gpu " + std::to_string(index);
  if (!DeviceWorks(device))
    return {name, Verdict::kFail, "does not answer; nvidia-smi may say why"};
  const Value facts = DescribeGpu(device);
  const std::string capability = facts.Find("compute_capability")->as_string();
  const std::string found = facts.Find("name")->as_string() + ", compute capability " + capability +
                            ", " + std::to_string(facts.Find("memory_bytes")->as_int() >> 20) +
                            " MiB";
  if (std::atoi(capability.c_str()) < kLeastComputeCapability) {
    return {name, Verdict::kFail, found + ": device code is for 8.0 and up"};
  }
  const std::string wrong = WrongProduct(device);
  if (!wrong.empty()) return {name, Verdict::kFail, found + ": " + wrong};
  return {name, Verdict::kOk, found + ", computes and repeats its bits"};
}

HealthCheck WaitFor(const std::string& name, double limit_s) {
  const at::Device device = ParseDevice(name);
  if (!device.is_cuda()) {
    return {"idle", Verdict::kFail,
            "'" + name + "' is " + device.str() + ": there is no GPU to wait for"};
  }
  return WaitUntilIdle(GpuMonitor::At(PciBusId(device)), std::chrono::duration<double>(limit_s),
                       WaitClock::OfMachine(),
                       [](const std::string& text) { std::cerr << text << std::endl; });
}

// What a check throws is what it found.
template <typename Work>
HealthCheck Try(const std::string& name, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return {name, Verdict::kFail, text.substr(0, text.find('\n'))};
  }
}

}  // namespace

std::vector<HealthCheck> CheckEngine(const std::string& device, std::optional<double> wait_idle_s) {
  std::vector<HealthCheck> checks;
  // Before this process is on the GPU itself.
  if (wait_idle_s) checks.push_back(Try("idle", [&] { return WaitFor(device, *wait_idle_s); }));
  SetNumerics(/*allow_tf32=*/false);
  checks.push_back(Try("libtorch", CheckLibtorch));
  checks.push_back(Try("cuda", CheckCudaBuild));
  const int num_gpus = BuiltWithCuda() ? CountGpus() : 0;
  for (int i = 0; i < num_gpus; ++i) {
    const std::string name = "gpu " + std::to_string(i);
    checks.push_back(Try(name, [i] { return CheckGpu(i); }));
    checks.push_back(Try(name + " clocks", [&] {
      const at::Device gpu(at::kCUDA, static_cast<c10::DeviceIndex>(i));
      return CheckClocks(name + " clocks", GpuMonitor::At(PciBusId(gpu)));
    }));
  }
  checks.push_back(Try("device", [&]() -> HealthCheck {
    return {"device", Verdict::kOk, "'" + device + "' is " + ParseDevice(device).str()};
  }));
  return checks;
}

}  // namespace mixerbench::harness
