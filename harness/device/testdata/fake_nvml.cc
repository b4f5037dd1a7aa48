// A library with the names and the ABI of NVML, of one GPU. One function is missing, as in old
// drivers, and one says that it is not supported.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

namespace {

constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;

int gpu;

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

int Write(const char* from, char* text, unsigned size) {
  if (std::strlen(from) >= size) return kInvalidArgument;
  std::strcpy(text, from);
  return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return 0; }

int nvmlSystemGetDriverVersion(char* text, unsigned size) { return Write("580.95.05", text, size); }

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  if (std::strcmp(bus_id, "0000:17:00.0") != 0) return kNotFound;
  *device = &gpu;
  return 0;
}

int nvmlDeviceGetUUID(void*, char* text, unsigned size) { return Write("GPU-12", text, size); }

int nvmlDeviceGetClockInfo(void*, unsigned kind, unsigned* mhz) {
  *mhz = kind == 1 ? 1905 : 2600;
  return 0;
}

int nvmlDeviceGetMaxClockInfo(void*, unsigned kind, unsigned* mhz) {
  *mhz = kind == 1 ? 1980 : 2619;
  return 0;
}

int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  *milliwatts = 700000;
  return 0;
}

int nvmlDeviceGetEccMode(void*, unsigned* current, unsigned* pending) {
  *current = 1;
  *pending = 0;
  return 0;
}

int nvmlDeviceGetMigMode(void*, unsigned*, unsigned*) { return kNotSupported; }

int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* bits) {
  *bits = 0x4;
  return 0;
}

int nvmlDeviceGetUtilizationRates(void*, Utilization* percent) {
  *percent = {97, 12};
  return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
  if (*count < 1) return kInvalidArgument;
  *count = 1;
  processes[0] = {4242, 1ull << 31, 0, 0};
  return 0;
}

}  // extern "C"
