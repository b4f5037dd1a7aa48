// Calls into the Python program around this one. `python3 -m mixerbench` loads the engine as a
// shared library and implements the operator `mixerbench::python`, which is declared here: tensors
// cross with their history, so one autograd graph runs through both languages. Nothing of CPython
// is linked: one build serves every Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/error.h"

namespace mixerbench::harness {

// An exception in Python. what() is one line: the exception and the innermost places that it
// passed; the whole traceback has been written to stderr.
class PythonError : public Error {
 public:
  explicit PythonError(const std::string& message) : Error(ExitCode::kUsage, message) {}
};

// Whether Python is around this program.
bool HasPython();

struct PythonReply {
  std::string text;
  std::vector<at::Tensor> tensors;
};

// Calls a function of python/mixerbench/bridge.py. Not with the interpreter's lock held. Errors:
// ConfigError when no Python is around this program and for what a user got wrong,
// c10::OutOfMemoryError, PythonError.
PythonReply CallPython(const std::string& function, const std::string& text,
                       const std::vector<at::Tensor>& tensors = {});

// Python's collector of garbage is off while one of these lives, after it has collected once: it
// would run in a call in the middle of a capture, and destroy what a capture forbids. Nothing
// without Python. Not with the interpreter's lock held.
class CollectorPause {
 public:
  CollectorPause();
  ~CollectorPause();
  CollectorPause(const CollectorPause&) = delete;
  CollectorPause& operator=(const CollectorPause&) = delete;
};

// While one of these lives, no module that this thread has built may change what it holds: buffers,
// frozen and trained parameters. Values are compared, so that what torch keeps no account of is
// seen too; what is a constant must have been one since the module was built. Nothing without
// Python.
class KeptValues {
 public:
  KeptValues();
  ~KeptValues();
  KeptValues(const KeptValues&) = delete;
  KeptValues& operator=(const KeptValues&) = delete;

  // Throws PythonError where one has changed.
  void End();

 private:
  bool is_ended_ = false;
};

// root.backward(gradient). What Python throws in it comes as from CallPython: libtorch passes on
// the message alone and leaves the exception pending in the thread, where the next call would meet
// it. What a module draws there comes from the seed of this thread's last call or, on a GPU, as in
// a call (draws.h), and it must leave the settings of the process as they were.
void Backward(const at::Tensor& root, const at::Tensor& gradient = {});

}  // namespace mixerbench::harness
