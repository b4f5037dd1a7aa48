// LayerNorm and RMSNorm of rows that lie in registers (row_layout.cuh), forward and backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/row_layout.cuh"

namespace mixerbench::kernels {

template <int kChunks>
__device__ inline RowValues<kChunks> Sum(const RowValues<kChunks>& a, const RowValues<kChunks>& b) {
  RowValues<kChunks> sum;
  ForEach<kChunks>([&](int c, int i) { sum.chunk[c].x[i] = a.chunk[c].x[i] + b.chunk[c].x[i]; });
  return sum;
}

// weight * x + bias; the bias of an RMSNorm is loaded as zeros.
template <int kChunks>
struct Affine {
  RowValues<kChunks> weight, bias;

  __device__ RowValues<kChunks> operator()(const RowValues<kChunks>& x) const {
    RowValues<kChunks> y;
    ForEach<kChunks>([&](int c, int i) {
      y.chunk[c].x[i] = weight.chunk[c].x[i] * x.chunk[c].x[i] + bias.chunk[c].x[i];
    });
    return y;
  }
};

// Weights of columns in shared memory, zeros for those that are absent and past the end of a row:
// registers hold rows under way and sums of weight gradients. The first halves of the lanes'
// vectors lie side by side, then the second ones: as rows they would meet in the same banks.
template <int kChunks, int kCount>
struct SharedColumns {
  float4 columns[kCount][32 * kChunks * kVector / 4];

  // All loads are on their way before the first store. To be followed by a barrier.
  template <typename Layout>
  __device__ void Fill(const Layout& layout, const float* const (&sources)[kCount]) {
    for (int i = static_cast<int>(threadIdx.x); i < layout.lanes * kVector * kChunks;
         i += kThreads) {
      float values[kCount];
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        values[k] = sources[k] != nullptr && i < layout.width ? sources[k][i] : 0;
      }
      const int vector = i / kVector;
      const int place =
          Place(layout, vector / layout.lanes, i / 4 % 2, vector % layout.lanes) * 4 + i % 4;
#pragma unroll
      for (int k = 0; k < kCount; ++k) reinterpret_cast<float*>(columns[k])[place] = values[k];
    }
  }

  template <typename Layout>
  __device__ RowValues<kChunks> Load(const Layout& layout, int k) const {
    RowValues<kChunks> values;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const Packed<float> packed{columns[k][Place(layout, c, 0, layout.lane)],
                                 columns[k][Place(layout, c, 1, layout.lane)]};
      values.chunk[c] = packed.Unpack();
    }
    return values;
  }

 private:
  template <typename Layout>
  __device__ static int Place(const Layout& layout, int chunk, int half, int lane) {
    return (2 * chunk + half) * layout.lanes + lane;
  }
};

// A row divided by its standard deviation (LayerNorm, mean removed) or root mean square.
template <int kChunks>
struct Standardised {
  RowValues<kChunks> x;  // zeros past the end
  float mean;            // what was taken from the row: 0 for an RMSNorm
  float scale;           // what it was multiplied by then
};

// `row` has zeros past its end.
template <int kChunks, typename Layout>
__device__ inline Standardised<kChunks> Standardise(const Layout& layout,
                                                    const RowValues<kChunks>& row, bool centre,
                                                    float eps) {
  const float inverse_width = 1.0f / static_cast<float>(layout.width);
  Standardised<kChunks> result{};
  if (centre) {
    result.mean =
        RowSum<kChunks>(layout, [&](int c, int i) { return row.chunk[c].x[i]; }) * inverse_width;
  }
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      result.x.chunk[c].x[i] = layout.Active(c) ? row.chunk[c].x[i] - result.mean : 0;
    }
  }
  const float square = RowSum<kChunks>(
      layout, [&](int c, int i) { return result.x.chunk[c].x[i] * result.x.chunk[c].x[i]; });
  result.scale = rsqrtf(square * inverse_width + eps);
  ForEach<kChunks>([&](int c, int i) { result.x.chunk[c].x[i] *= result.scale; });
  return result;
}

// The row standardised by the mean and scale of Standardise, in one instruction an element: the
// rounded product of the two is off by no more than the mean's own rounding. Past the end of the
// row the values are finite but mean nothing.
template <int kChunks>
__device__ inline RowValues<kChunks> StandardiseBy(const RowValues<kChunks>& row, float mean,
                                                   float scale) {
  const float offset = -mean * scale;
  RowValues<kChunks> x;
  ForEach<kChunks>([&](int c, int i) { x.chunk[c].x[i] = row.chunk[c].x[i] * scale + offset; });
  return x;
}

// Sums over the rows of a thread.
template <int kChunks>
struct NormGradients {
  RowValues<kChunks> weight{}, bias{};
};

// The backward pass of y = weight * x + bias with x = (row - mean) * scale: adds to the gradients
// of the weights and to that of the row. dy and `weight` are zero past the end of the row.
template <int kChunks, typename Layout>
__device__ inline void AddNormBackward(const Layout& layout, const RowValues<kChunks>& x,
                                       float scale, const RowValues<kChunks>& dy,
                                       const RowValues<kChunks>& weight, bool centre,
                                       NormGradients<kChunks>& gradients,
                                       RowValues<kChunks>& d_row) {
  RowValues<kChunks> g;  // the gradient of x
  float projection = 0;
  float mean = 0;
  ForEach<kChunks>([&](int c, int i) {
    const float d = dy.chunk[c].x[i];
    gradients.bias.chunk[c].x[i] += d;
    gradients.weight.chunk[c].x[i] += d * x.chunk[c].x[i];
    g.chunk[c].x[i] = d * weight.chunk[c].x[i];
    projection += g.chunk[c].x[i] * x.chunk[c].x[i];
    mean += g.chunk[c].x[i];
  });
  const float share = -scale / static_cast<float>(layout.width);
  projection = GroupSum(projection, layout.lanes) * share;
  // Lanes of two vectors leave room for few warps, which would wait for one sum after the other.
  if (kChunks > 1 || centre) mean = GroupSum(mean, layout.lanes);
  mean = centre ? mean * share : 0;
  ForEach<kChunks>([&](int c, int i) {
    d_row.chunk[c].x[i] += g.chunk[c].x[i] * scale + (x.chunk[c].x[i] * projection + mean);
  });
}

// target[k][column] = the sum of values[k] over all groups of the block, in order of the groups, as
// SumGroups forms one of them. `scratch` holds kCount * kThreads * kChunks * 8 floats that no
// thread uses any more. Called by all threads.
template <int kCount, int kChunks, typename Layout>
__device__ inline void SumGroupsTogether(const Layout& layout,
                                         const RowValues<kChunks> (&values)[kCount], float* scratch,
                                         float* target) {
  const int pitch = layout.lanes * kVector * kChunks;
  const int size = layout.num_groups * pitch;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      StoreFloat(scratch + k * size + layout.group * pitch + layout.Column(c), values[k].chunk[c]);
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kCount * layout.width; i += kThreads) {
    const float* parts = scratch + i / layout.width * size + i % layout.width;
    float sum = 0;
#pragma unroll 16
    for (int group = 0; group < layout.num_groups; ++group) sum += parts[group * pitch];
    target[i] = sum;
  }
}

}  // namespace mixerbench::kernels
