// Stands in for device_cuda.cc in a build without CUDA.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "harness/device/device.h"

namespace mixerbench::harness {
namespace {

[[noreturn]] void Unavailable() { throw BackendUnavailable("this program was built without CUDA"); }

}  // namespace

bool BuiltWithCuda() { return false; }
Value CudaVersions() { return {}; }

struct StreamScope::Guard {};
StreamScope::StreamScope(at::Device) {}
StreamScope::~StreamScope() = default;

struct LaunchWindow::Marks {};
LaunchWindow::LaunchWindow(at::Device) {}
LaunchWindow::~LaunchWindow() = default;
void LaunchWindow::Advance() {}

ProfileRange::ProfileRange(const char*) {}
ProfileRange::~ProfileRange() = default;

namespace internal {

int CudaDeviceCount() { return 0; }
void CudaSynchronize(int) { Unavailable(); }
bool CudaWorks(int) { Unavailable(); }
CUstream_st* CudaStream(int) { Unavailable(); }
void CudaResetPeakMemory(int) { Unavailable(); }
DeviceMemory CudaMemory(int) { Unavailable(); }
double CudaTimeMilliseconds(int, const std::function<void()>&) { Unavailable(); }
void CudaFlushCache(int) { Unavailable(); }
Value CudaDescribe(int) { Unavailable(); }
std::string CudaPciBusId(int) { Unavailable(); }

}  // namespace internal
}  // namespace mixerbench::harness
