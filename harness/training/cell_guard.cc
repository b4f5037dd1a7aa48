// SPDX-License-Identifier: Apache-2.0
#include "harness/training/cell_guard.h"

#include <new>
#include <optional>
#include <stdexcept>

#include <c10/util/Exception.h>

#include "base/error.h"

namespace mixerbench::harness {
namespace {

std::string FirstLine(std::string text) { return text.substr(0, text.find('\n')); }

// The reason when what is being handled is lack of memory. The CPU allocator reports it, and sizes
// beyond 64 bits, as plain errors with these texts.
std::optional<std::string> LackOfMemory() {
  try {
    throw;
  } catch (const LacksMemory& error) {
    return error.what();
  } catch (const c10::OutOfMemoryError& error) {
    return FirstLine(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return "host memory exhausted";
  } catch (const std::length_error&) {
    return "host memory exhausted";
  } catch (const c10::Error& error) {
    const std::string message = FirstLine(error.what_without_backtrace());
    for (const char* text : {"DefaultCPUAllocator", "size calculation overflowed"}) {
      if (message.find(text) != std::string::npos) return message;
    }
    return std::nullopt;
  } catch (...) {
    return std::nullopt;
  }
}

// What is being handled.
Outcome CurrentFailure() {
  using reports::CellState;
  if (const auto reason = LackOfMemory()) return {CellState::kOom, *reason};
  try {
    throw;
  } catch (const Diverged& error) {
    return {CellState::kDiverged, error.what()};
  } catch (const TimedOut& error) {
    return {CellState::kTimeout, error.what()};
  } catch (const Interrupted& error) {
    return {CellState::kInterrupted, error.what()};
  } catch (const SlowedDown& error) {
    return {CellState::kSkipped, error.what()};
  } catch (const ConfigError& error) {
    return {CellState::kUnsupported, FirstLine(error.what())};
  } catch (const BackendUnavailable& error) {
    return {CellState::kUnsupported, FirstLine(error.what())};
  } catch (const c10::Error& error) {
    return {CellState::kError, FirstLine(error.what_without_backtrace())};
  } catch (const std::exception& error) {
    return {CellState::kError, FirstLine(error.what())};
  }
}

}  // namespace

bool FitsInMemory(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (...) {
    if (LackOfMemory()) return false;
    throw;
  }
}

Outcome Guard(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const std::exception&) {
    return CurrentFailure();
  }
}

}  // namespace mixerbench::harness
