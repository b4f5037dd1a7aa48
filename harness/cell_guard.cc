// SPDX-License-Identifier: Apache-2.0
#include "harness/cell_guard.h"

#include <new>

#include <c10/util/Exception.h>

#include "base/error.h"

namespace mixerbench::harness {
namespace {

std::string FirstLine(std::string text) { return text.substr(0, text.find('\n')); }

// The CPU allocator reports lack of memory as a plain error with this text.
bool IsHostOutOfMemory(const std::string& message) {
  return message.find("DefaultCPUAllocator") != std::string::npos;
}

}  // namespace

Outcome Guard(const std::function<void()>& work) {
  using reports::CellState;
  try {
    work();
    return {};
  } catch (const Diverged& error) {
    return {CellState::kDiverged, error.what()};
  } catch (const TimedOut& error) {
    return {CellState::kTimeout, error.what()};
  } catch (const Interrupted& error) {
    return {CellState::kInterrupted, error.what()};
  } catch (const ConfigError& error) {
    return {CellState::kUnsupported, FirstLine(error.what())};
  } catch (const BackendUnavailable& error) {
    return {CellState::kUnsupported, FirstLine(error.what())};
  } catch (const c10::OutOfMemoryError& error) {
    return {CellState::kOom, FirstLine(error.what_without_backtrace())};
  } catch (const std::bad_alloc&) {
    return {CellState::kOom, "host memory exhausted"};
  } catch (const c10::Error& error) {
    const std::string message = FirstLine(error.what_without_backtrace());
    return {IsHostOutOfMemory(message) ? CellState::kOom : CellState::kError, message};
  } catch (const std::exception& error) {
    return {CellState::kError, FirstLine(error.what())};
  }
}

}  // namespace mixerbench::harness
