// SPDX-License-Identifier: Apache-2.0
#include "reports/result/device.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

CellResult CellOf(const char* device) {
  CellResult cell;
  cell.environment = Object{
      {"device", device}, {"gpu", Object{{"name", "A GPU"}}}, {"cpu", Object{{"model", "A CPU"}}}};
  return cell;
}

TEST_CASE("device: what a cell ran on, not what stood beside it") {
  CHECK(DeviceOf(CellOf("cuda:0")) == "A GPU");
  CHECK(DeviceOf(CellOf("cpu")) == "A CPU");
  CellResult old = CellOf("cpu");
  old.environment.as_object().erase("device");
  CHECK(DeviceOf(old) == "A GPU");
  old.environment.as_object()["gpu"] = nullptr;
  CHECK(DeviceOf(old) == "A CPU");
  CHECK(DeviceOf(CellResult()).empty());
}

}  // namespace
}  // namespace mixerbench::reports
