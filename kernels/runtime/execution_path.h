// Which of its implementations a function runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mixerbench::kernels {

enum class ExecutionPath {
  kReference,  // reads like the maths, any floating dtype; a recurrence goes token by token
  kFast,       // what training uses: chunked or parallel, device code where there is some
};

}  // namespace mixerbench::kernels
