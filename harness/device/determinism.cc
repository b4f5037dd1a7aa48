// SPDX-License-Identifier: Apache-2.0
#include "harness/device/determinism.h"

#include <ATen/Context.h>

#include "io/value_path.h"

namespace mixerbench::harness {
namespace {

constexpr std::string_view kFlag = "--deterministic strict: ";
// In the message of every operation that ATen refuses for this reason, cuBLAS' included.
constexpr std::string_view kAtenSays = "torch.use_deterministic_algorithms";

}  // namespace

void BeStrict() {
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(true);
}

void ExplainRefusal(reports::CellResult& result) {
  if (result.state != reports::CellState::kError) return;
  if (result.reason.find(kAtenSays) == std::string::npos) return;
  result.state = reports::CellState::kUnsupported;
  // What follows is advice to people who write Python.
  result.reason = std::string(kFlag) + result.reason.substr(0, result.reason.find(", but you set"));
}

bool IsStrictRefusal(const reports::CellResult& result) {
  return result.state == reports::CellState::kUnsupported && result.reason.starts_with(kFlag);
}

bool WasStrict(const reports::CellResult& result) {
  return io::StringAt(result.environment, "determinism.deterministic_algorithms") == "strict";
}

}  // namespace mixerbench::harness
