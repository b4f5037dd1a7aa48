// Stands in for the device functions in a build without CUDA: nothing calls them there.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/adamw_device.h"
#include "kernels/fused/column_sum_device.h"
#include "kernels/fused/cross_entropy_device.h"
#include "kernels/fused/dropout_device.h"
#include "kernels/fused/embedding_device.h"
#include "kernels/fused/gates_device.h"
#include "kernels/fused/gumbel_noise_device.h"
#include "kernels/fused/hopper_device.h"
#include "kernels/fused/launch.h"
#include "kernels/fused/linear_backward_device.h"
#include "kernels/fused/linear_convolution_device.h"
#include "kernels/fused/linear_cross_entropy_device.h"
#include "kernels/fused/linear_forward_device.h"
#include "kernels/fused/norm_linear_device.h"
#include "kernels/fused/output_norm_device.h"
#include "kernels/fused/residual_norm_device.h"
#include "kernels/fused/rotary_device.h"
#include "kernels/fused/rows_device.h"
#include "kernels/fused/short_convolution_device.h"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kNoDevice = 100;  // cudaErrorNoDevice

}  // namespace

bool HasDeviceFunctions() { return false; }

int SumOfSquaresPartials(const AdamWArgs&) { return 0; }
int LaunchAdamW(const AdamWArgs&, CUstream_st*) { return kNoDevice; }
int LaunchSumOfSquares(const AdamWArgs&, float*, CUstream_st*) { return kNoDevice; }
int LaunchClipScale(const float*, int, float, float*, CUstream_st*) { return kNoDevice; }
int ColumnSumPartials(long long) { return 0; }
int LaunchColumnSum(const ColumnSumArgs&, CUstream_st*) { return kNoDevice; }
int LaunchCrossEntropyForward(const CrossEntropyForward&, CUstream_st*) { return kNoDevice; }
int LaunchScaleUnlessOne(void*, Element, long long, const float*, CUstream_st*) {
  return kNoDevice;
}
int LaunchDropoutMask(const DropoutMaskArgs&, CUstream_st*) { return kNoDevice; }
EmbeddingScratchSizes EmbeddingScratch(const EmbeddingSizes&) { return {}; }
int LaunchEmbeddingForward(const EmbeddingForward&, CUstream_st*) { return kNoDevice; }
int LaunchEmbeddingBackward(const EmbeddingBackward&, CUstream_st*) { return kNoDevice; }
int LaunchLogSigmoidDecayForward(const LogSigmoidDecayArgs&, CUstream_st*) { return kNoDevice; }
int LaunchLogSigmoidDecayBackward(const LogSigmoidDecayArgs&, CUstream_st*) { return kNoDevice; }
int DeltaGatesPartials(long long, int) { return 0; }
int LaunchDeltaGatesForward(const DeltaGatesDeviceArgs&, CUstream_st*) { return kNoDevice; }
int LaunchDeltaGatesBackward(const DeltaGatesDeviceArgs&, CUstream_st*) { return kNoDevice; }
int LaunchSwigluForward(const SwigluArgs&, CUstream_st*) { return kNoDevice; }
int LaunchSwigluBackward(const SwigluArgs&, CUstream_st*) { return kNoDevice; }
int LaunchGumbelNoise(const GumbelNoiseArgs&, CUstream_st*) { return kNoDevice; }
bool IsHopper(int) { return false; }
int LaunchLinearBackward(const LinearBackwardArgs&, CUstream_st*) { return kNoDevice; }
int LaunchLinearConvolution(const LinearConvolutionArgs&, CUstream_st*) { return kNoDevice; }
int LaunchLinearCrossEntropyForward(const LinearCrossEntropyArgs&, CUstream_st*) {
  return kNoDevice;
}
int LaunchLinearCrossEntropyBackward(const LinearCrossEntropyArgs&, CUstream_st*) {
  return kNoDevice;
}
int LaunchLinearForward(const LinearForwardArgs&, CUstream_st*) { return kNoDevice; }
int LaunchNormLinearForward(const NormLinearForwardArgs&, CUstream_st*) { return kNoDevice; }
int LaunchNormLinearBackward(const NormLinearBackwardArgs&, CUstream_st*) { return kNoDevice; }
int OutputNormPartials(const OutputNormSizes&) { return 0; }
int LaunchOutputNormForward(const OutputNormForward&, CUstream_st*) { return kNoDevice; }
int LaunchOutputNormBackward(const OutputNormBackward&, CUstream_st*) { return kNoDevice; }
int ResidualNormPartials(long long, int) { return 0; }
int LaunchResidualNormForward(const ResidualNormForward&, CUstream_st*) { return kNoDevice; }
int LaunchResidualNormBackward(const ResidualNormBackward&, CUstream_st*) { return kNoDevice; }
int LaunchRotary(const RotaryArgs&, CUstream_st*) { return kNoDevice; }
int LaunchAddRows(const AddRowsArgs&, CUstream_st*) { return kNoDevice; }
int LaunchCopyRows(const CopyRowsArgs&, CUstream_st*) { return kNoDevice; }
int ShortConvolutionPartials(const ShortConvolutionSizes&) { return 0; }
int LaunchShortConvolutionForward(const ShortConvolutionForward&, CUstream_st*) {
  return kNoDevice;
}
int LaunchShortConvolutionBackward(const ShortConvolutionBackward&, CUstream_st*) {
  return kNoDevice;
}

}  // namespace mixerbench::kernels::fused
