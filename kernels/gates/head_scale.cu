// Heads times a number each: one pass over memory each way.
//
// A group of neighbouring lanes owns a head, eight elements a lane. In the backward pass a fixed
// number of groups goes over the heads in steps that are whole rows, so that a group meets one head
// of the row alone and its sum of a scale of heads stays in a register. fp32 arithmetic,
// deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <cuda_runtime_api.h>

#include "kernels/device/dependent_launch.cuh"
#include "kernels/device/sum_rows.h"
#include "kernels/device/vector_io.cuh"
#include "kernels/gates/head_scale_cuda.h"

namespace mixerbench::kernels {
namespace {

constexpr int kThreads = 256;
constexpr long long kMostBlocks = 8 * 132;  // of the backward pass: what one H200 holds

__host__ __device__ constexpr int GroupsOf(int head_dim) { return kThreads / (head_dim / kVector); }

// A head of a row, and a lane's part of it.
struct Place {
  long long index;  // of all heads of all rows
  long long row;
  int head;
  int column;

  __device__ Place(const HeadScaleSizes& sizes, long long first)
      : index(first),
        row(first / sizes.num_heads),
        head(static_cast<int>(first - row * sizes.num_heads)),
        column(head * sizes.head_dim +
               static_cast<int>(threadIdx.x) % (sizes.head_dim / kVector) * kVector) {}

  template <typename T>
  __device__ Packed<T> Load(const ConstRows& rows, bool exists) const {
    return LoadPacked(static_cast<const T*>(rows.data) + row * rows.stride + column, exists);
  }

  template <typename T>
  __device__ void Store(const Rows& rows, const Vector& values) const {
    StoreVector(static_cast<T*>(rows.data) + row * rows.stride + column, values);
  }

  __device__ float Scale(const HeadScaleSizes& sizes, const float* scale) const {
    return scale[sizes.scale_of_rows ? index : head];
  }
};

// The first head of a thread's group.
__device__ inline long long FirstHead(const HeadScaleSizes& sizes) {
  return static_cast<long long>(blockIdx.x) * GroupsOf(sizes.head_dim) +
         static_cast<int>(threadIdx.x) / (sizes.head_dim / kVector);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) ForwardKernel(const HeadScaleForward args) {
  const Place at(args.sizes, FirstHead(args.sizes));
  if (at.row >= args.sizes.num_rows) return;
  const Packed<T> x = at.Load<T>(args.x, true);
  const Packed<T> base = at.Load<T>(args.base, args.base.data != nullptr);
  const float scale = at.Scale(args.sizes, args.scale);
  const Vector factor = x.Unpack();
  Vector y = base.Unpack();
#pragma unroll
  for (int i = 0; i < kVector; ++i) y.x[i] += factor.x[i] * scale;
  at.Store<T>(args.y, y);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) BackwardKernel(const HeadScaleBackward args) {
  LetNextStart();
  const HeadScaleSizes& sizes = args.sizes;
  const int lanes = sizes.head_dim / kVector;
  const bool leads = static_cast<int>(threadIdx.x) % lanes == 0;
  const long long heads = sizes.num_rows * sizes.num_heads;
  const long long step = static_cast<long long>(gridDim.x) * GroupsOf(sizes.head_dim);
  const long long first = FirstHead(sizes);
  // Whole warps take every turn: lanes add up their products.
  const long long first_of_warp = first - static_cast<int>(threadIdx.x) % 32 / lanes;
  float total = 0;
  for (long long turn = 0; first_of_warp + turn < heads; turn += step) {
    const bool exists = first + turn < heads;
    const Place at(sizes, exists ? first + turn : heads - 1);
    const Packed<T> packed_x = at.Load<T>(args.x, exists);
    const Vector d_y = at.Load<T>(args.d_y, exists).Unpack();
    const Vector x = packed_x.Unpack();
    const float scale = at.Scale(sizes, args.scale);
    float product = 0;
    Vector d_x;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      product += x.x[i] * d_y.x[i];
      d_x.x[i] = d_y.x[i] * scale;
    }
    if (exists && args.d_x.data != nullptr) at.Store<T>(args.d_x, d_x);
    if (args.d_scale == nullptr) continue;
    product = GroupSum(product, lanes);
    if (!sizes.scale_of_rows) {
      total += product;
    } else if (exists && leads) {
      args.d_scale[at.index] = product;
    }
  }
  if (args.d_scale != nullptr && !sizes.scale_of_rows && leads) args.partials[first] = total;
}

template <typename F>
void WithElement(Element element, F f) {
  if (element == Element::kFloat) {
    f.template operator()<float>();
  } else {
    f.template operator()<__nv_bfloat16>();
  }
}

long long BlocksFor(const HeadScaleSizes& sizes) {
  const int groups = GroupsOf(sizes.head_dim);
  return (sizes.num_rows * sizes.num_heads + groups - 1) / groups;
}

// A multiple of the heads of a row, so that the groups of all blocks are whole rows of heads.
long long BackwardBlocks(const HeadScaleSizes& sizes) {
  const long long rows_of_blocks = std::min(BlocksFor(sizes), kMostBlocks) / sizes.num_heads;
  return std::max(rows_of_blocks, 1LL) * sizes.num_heads;
}

}  // namespace

long long HeadScalePartials(const HeadScaleSizes& sizes) {
  return BackwardBlocks(sizes) / sizes.num_heads * GroupsOf(sizes.head_dim);
}

int LaunchHeadScaleForward(const HeadScaleForward& args, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(BlocksFor(args.sizes));
  WithElement(args.x.element,
              [&]<typename T>() { ForwardKernel<T><<<blocks, kThreads, 0, stream>>>(args); });
  return cudaGetLastError();
}

int LaunchHeadScaleBackward(const HeadScaleBackward& args, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(BackwardBlocks(args.sizes));
  WithElement(args.x.element,
              [&]<typename T>() { BackwardKernel<T><<<blocks, kThreads, 0, stream>>>(args); });
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess || args.d_scale == nullptr || args.sizes.scale_of_rows) return status;
  return LaunchSumRows(args.partials, static_cast<int>(HeadScalePartials(args.sizes)),
                       args.sizes.num_heads, args.d_scale, stream);
}

}  // namespace mixerbench::kernels
