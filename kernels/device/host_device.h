// Marks functions that device code and the host's compiler share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#ifdef __CUDACC__
#define MIXERBENCH_HOST_DEVICE __host__ __device__
#else
#define MIXERBENCH_HOST_DEVICE
#endif
