// SPDX-License-Identifier: Apache-2.0
#include "harness/python/host.h"

#include <cstdint>
#include <dlfcn.h>
#include <mutex>
#include <string_view>
#include <tuple>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "base/check.h"
#include "harness/python/draws.h"

namespace mixerbench::harness {
namespace {

using PythonOperator = std::tuple<std::string, std::vector<at::Tensor>>(std::string_view,
                                                                        std::string_view,
                                                                        at::TensorList);

// The functions of CPython's stable interface that pending errors and its collector need, as the
// process has them: none where a test stands in for Python.
struct Interpreter {
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  void* (*this_thread)() = nullptr;
  void* (*save_thread)() = nullptr;
  void (*restore_thread)(void*) = nullptr;
  void* (*error_occurred)() = nullptr;
  void (*write_unraisable)(void*) = nullptr;
  std::intptr_t (*collect)() = nullptr;
  int (*disable_collector)() = nullptr;  // whether it was on
  int (*enable_collector)() = nullptr;
};

template <typename Function>
void FindSymbol(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

const Interpreter& ThisInterpreter() {
  static const Interpreter interpreter = [] {
    Interpreter found;
    FindSymbol("PyGILState_Ensure", found.ensure);
    FindSymbol("PyGILState_Release", found.release);
    FindSymbol("PyGILState_GetThisThreadState", found.this_thread);
    FindSymbol("PyEval_SaveThread", found.save_thread);
    FindSymbol("PyEval_RestoreThread", found.restore_thread);
    FindSymbol("PyErr_Occurred", found.error_occurred);
    FindSymbol("PyErr_WriteUnraisable", found.write_unraisable);
    FindSymbol("PyGC_Collect", found.collect);
    FindSymbol("PyGC_Disable", found.disable_collector);
    FindSymbol("PyGC_Enable", found.enable_collector);
    return found;
  }();
  return interpreter;
}

// A thread that only visits Python loses its pending error when it leaves: this one stays known to
// the interpreter, without its lock, for as long as it lives.
class KnownThread {
 public:
  KnownThread() : interpreter_(ThisInterpreter()) {
    if (interpreter_.ensure == nullptr || interpreter_.this_thread() != nullptr) return;
    entered_ = interpreter_.ensure();
    saved_ = interpreter_.save_thread();
  }
  ~KnownThread() {
    if (saved_ == nullptr) return;
    interpreter_.restore_thread(saved_);
    interpreter_.release(entered_);
  }
  KnownThread(const KnownThread&) = delete;
  KnownThread& operator=(const KnownThread&) = delete;

 private:
  const Interpreter& interpreter_;
  int entered_ = 0;
  void* saved_ = nullptr;
};

const c10::OperatorHandle& Operator() {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("mixerbench::python", "");
  return handle;
}

// An answer starts with its kind.
[[noreturn]] void ThrowFailure(char kind, const std::string& text) {
  if (kind == 'c') throw ConfigError("", text);
  if (kind == 'm') throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, text);
  throw PythonError(text);
}

}  // namespace

TORCH_LIBRARY(mixerbench, library) {
  library.def("python(str function, str text, Tensor[] tensors) -> (str, Tensor[])");
}

bool HasPython() {
  return Operator().hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

PythonReply CallPython(const std::string& function, const std::string& text,
                       const std::vector<at::Tensor>& tensors) {
  if (!HasPython()) {
    throw ConfigError("",
                      "a mixer in Python needs Python around this program: start it as "
                      "`python3 -m mixerbench` (docs/PYTHON.md)");
  }
  thread_local const KnownThread known;
  static const auto call = Operator().typed<PythonOperator>();
  auto [answer, outputs] = call.call(function, text, tensors);
  Require(!answer.empty(), "Python answers with a kind");
  if (answer[0] != '=') ThrowFailure(answer[0], answer.substr(1));
  return {answer.substr(1), std::move(outputs)};
}

namespace {

// How many pauses there are, in all threads, and whether the first one found the collector on.
struct Pauses {
  std::mutex mutex;
  int num = 0;
  bool was_on = false;
};

Pauses& ThePauses() {
  static Pauses pauses;
  return pauses;
}

bool HasCollector() { return HasPython() && ThisInterpreter().ensure != nullptr; }

}  // namespace

CollectorPause::CollectorPause() {
  if (!HasCollector()) return;
  const Interpreter& python = ThisInterpreter();
  const std::lock_guard lock(ThePauses().mutex);
  if (ThePauses().num++ > 0) return;
  const int entered = python.ensure();
  python.collect();
  ThePauses().was_on = python.disable_collector() != 0;
  python.release(entered);
}

CollectorPause::~CollectorPause() {
  if (!HasCollector()) return;
  const Interpreter& python = ThisInterpreter();
  const std::lock_guard lock(ThePauses().mutex);
  if (--ThePauses().num > 0 || !ThePauses().was_on) return;
  const int entered = python.ensure();
  python.enable_collector();
  python.release(entered);
}

KeptValues::KeptValues() : is_ended_(!HasPython()) {
  if (!is_ended_) CallPython("remember_values", "");
}

KeptValues::~KeptValues() {
  if (is_ended_) return;
  try {
    CallPython("forget_values", "");
  } catch (const std::exception&) {  // another one is on its way, which came first
  }
}

void KeptValues::End() {
  if (std::exchange(is_ended_, true)) return;
  CallPython("compare_values", "");
}

namespace {

// Throws what is pending in this thread.
void ThrowPending() {
  const Interpreter& python = ThisInterpreter();
  if (python.ensure == nullptr) return;
  const int entered = python.ensure();
  const bool is_pending = python.error_occurred() != nullptr;
  if (is_pending) python.write_unraisable(nullptr);  // to the hook of bridge.py
  python.release(entered);
  if (is_pending) CallPython("raise_unraisable", "");
}

// While one lives, what Python does in this process is what a module does in a backward pass.
class GuardedBackward {
 public:
  GuardedBackward() { CallPython("begin_backward", ""); }
  ~GuardedBackward() {
    if (is_ended_) return;
    try {
      CallPython("end_backward", "");
    } catch (const std::exception&) {  // another one is on its way, which came first
    }
  }
  GuardedBackward(const GuardedBackward&) = delete;
  GuardedBackward& operator=(const GuardedBackward&) = delete;

  // Throws where the module has left something changed.
  void End() {
    is_ended_ = true;
    CallPython("end_backward", "");
  }

 private:
  bool is_ended_ = false;
};

}  // namespace

void Backward(const at::Tensor& root, const at::Tensor& gradient) {
  if (!HasPython()) {
    root.backward(gradient);
    return;
  }
  const DrawsOfCall draws(root.device(), /*seed=*/0);
  GuardedBackward guarded;
  try {
    root.backward(gradient);
  } catch (const std::exception&) {
    ThrowPending();
    throw;
  }
  guarded.End();
}

}  // namespace mixerbench::harness
