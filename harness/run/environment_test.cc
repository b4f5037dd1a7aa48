// SPDX-License-Identifier: Apache-2.0
#include "harness/run/environment.h"

#include <cstdlib>
#include <thread>

#include <ATen/Parallel.h>

#include "base/sha256.h"
#include "harness/device/device.h"
#include "harness/device/fake_gpu.h"
#include "io/json.h"
#include "io/value_path.h"
#include "reports/result/result_json.h"
#include "reports/result/schema.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

reports::CellResult ResultWith(const GpuMonitor& gpu, const GpuState& start) {
  reports::CellResult result;
  for (std::string* id : {&result.run_id, &result.group_id}) *id = "sha256:" + Sha256Hex("id");
  result.name = "mqar/gla";
  result.kind = "throughput";
  result.environment = DescribeEnvironment(at::kCPU, Dtype::kFp32, /*is_strict=*/false, gpu);
  result.machine = DescribeMachine(gpu, start);
  return result;
}

// {"time": {"machine": {"gpu": ...}}} of a result, which the schema must allow.
Value GpuInResult(const reports::CellResult& result) {
  const Value document = reports::CellToValue(result);
  CHECK(reports::ValidateCell(document) == std::vector<std::string>());
  CHECK(reports::CellFromValue(document).machine == result.machine);
  const Value* const machine = document.Find("time")->Find("machine");
  const Value* const gpu = machine->Find("gpu");
  return gpu ? *gpu : Value();
}

TEST_CASE("environment: which GPU it is and how it was stands in the result, without its UUID") {
  FakeGpu fake;
  fake.throttle = [] { return kGpuIdle; };
  const GpuMonitor gpu = fake.Monitor();
  const GpuState start = StateOf(gpu);
  fake.sm_mhz = 1500;
  fake.throttle = [] { return 0x44; };
  const reports::CellResult result = ResultWith(gpu, start);
  CHECK(GpuInResult(result) ==
        Object{{"uuid_hash", "sha256:" + Sha256Hex(fake.uuid)},
               {"power_limit_w", 700.0},
               {"start", Object{{"sm_clock_mhz", 1905}, {"throttle", Array{"gpu_idle"}}}},
               {"end", Object{{"sm_clock_mhz", 1500},
                              {"throttle", Array{"sw_power_cap", "hw_thermal_slowdown"}}}}});
  CHECK(reports::DumpCell(result).find(fake.uuid) == std::string::npos);
}

TEST_CASE("environment: what the driver tells of all such GPUs") {
  FakeGpu fake;
  Value cuda = Object{{"driver", "13.0"}};
  Value facts = Object{{"name", "NVIDIA H200"}};
  AddDriverFacts(fake.Monitor(), cuda, facts);
  CHECK(cuda == Object{{"driver", "13.0"}, {"nvidia_driver", "580.95.05"}});
  // The fake supports neither clocks of its memory nor MIG.
  CHECK(facts == Object{{"name", "NVIDIA H200"}, {"max_sm_clock_mhz", 1980}, {"ecc", true}});
  reports::CellResult result = ResultWith(fake.Monitor(), {});
  result.environment.as_object()["cuda"] = cuda;
  result.environment.as_object()["gpu"] = facts;
  CHECK(reports::ValidateCell(reports::CellToValue(result)) == std::vector<std::string>());
  Value none;
  AddDriverFacts(fake.Monitor(), none, none);
  CHECK(none.is_null());
}

TEST_CASE("environment: what a GPU is like this time changes no checksum of the content") {
  FakeGpu fake;
  const auto content_of = [](const reports::CellResult& result) {
    return *reports::CellToValue(result).Find("integrity");
  };
  const Value with = content_of(ResultWith(fake.Monitor(), {}));
  fake.uuid = "GPU-another";
  CHECK(content_of(ResultWith(fake.Monitor(), {})) == with);
  CHECK(content_of(ResultWith(GpuMonitor(), {})) == with);
}

TEST_CASE("environment: without NVML its facts are absent") {
  const reports::CellResult result = ResultWith(GpuMonitor(), {});
  CHECK(GpuInResult(result).is_null());
  CHECK(result.environment.Find("gpu")->is_null());  // and no GPU
  CHECK(reports::DumpCell(result).find("nvidia_driver") == std::string::npos);
}

TEST_CASE("environment: threads and switches are those in force") {
  std::thread([] {
    at::set_num_threads(3);
    const Value environment = DescribeEnvironment(at::kCPU, Dtype::kFp32, false, {});
    CHECK(*environment.Find("cpu")->Find("threads") == Value(3));
  }).join();
  SetNumerics(/*allow_tf32=*/false);
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1);
  const Value environment = DescribeEnvironment(at::kCPU, Dtype::kTf32, true, {});
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  CHECK(*environment.Find("cpu")->Find("threads") == Value(1));
  CHECK(*environment.Find("determinism") == Object{{"deterministic_algorithms", "strict"},
                                                   {"fill_uninitialized_memory", false},
                                                   {"cudnn_benchmark", false},
                                                   {"cudnn_deterministic", true},
                                                   {"cublas_workspace_config", ":4096:8"},
                                                   {"tf32", true}});
}

TEST_CASE("environment: the container, by its groups or its mounts") {
  const std::string id = Sha256Hex("container");
  const std::string layer = Sha256Hex("layer");
  CHECK(ContainerId("0::/system.slice/docker-" + id + ".scope\n", "") == id);
  CHECK(ContainerId("12:cpuset:/docker/" + id + "\n11:cpu:/docker/" + id + "\n", "") == id);
  CHECK(ContainerId("0::/kubepods.slice/pod1/cri-containerd-" + id + ".scope", "") == id);
  const std::string mounts = "21 1 0:1 / / rw - overlay upperdir=/var/lib/docker/overlay2/" +
                             layer + "/diff\n22 21 8:1 /var/lib/docker/containers/" + id +
                             "/hostname /etc/hostname rw - ext4 /dev/sda1 rw\n";
  CHECK(ContainerId("0::/\n", mounts) == id);
  CHECK_FALSE(ContainerId("0::/user.slice/user-1000.slice\n", ""));
  CHECK_FALSE(ContainerId("0::/\n", mounts.substr(0, mounts.find('\n'))));
}

}  // namespace
}  // namespace mixerbench::harness
