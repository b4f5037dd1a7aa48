// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/selective_scan/selective_scan.h"

#include <utility>

#include "kernels/linear_attention/selective_scan/prepare.h"
#include "kernels/linear_attention/selective_scan/selective_scan_cuda.h"
#include "kernels/linear_attention/selective_scan/selective_scan_plan.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels {

SelectiveScanResult SelectiveScan(const SelectiveScanArgs& args, ExecutionPath path) {
  if (path == ExecutionPath::kReference) {
    selective_scan::RecordFallback(args, kReferencePlan, kReferenceAsked);
    return ReferenceSelectiveScan(args);
  }
  const auto sizes = selective_scan::Prepare(args);
  auto on_device = selective_scan::RunOnCuda(args, sizes);
  if (on_device.result) return *std::move(on_device.result);
  selective_scan::RecordFallback(args, kAtenChunkPlan, on_device.refusal);
  return ChunkSelectiveScan(args);
}

namespace selective_scan {
namespace {

NamedTensors Run(const NamedTensors& inputs, const CoreOptions& options) {
  const SelectiveScanArgs args{.u = FindTensor(inputs, "u"),
                               .delta = FindTensor(inputs, "delta"),
                               .A_log = FindTensor(inputs, "A_log"),
                               .B = FindTensor(inputs, "B"),
                               .C = FindTensor(inputs, "C"),
                               .D = FindTensor(inputs, "D"),
                               .delta_bias = FindTensor(inputs, "delta_bias"),
                               .z = FindTensor(inputs, "z"),
                               .initial_state = FindTensor(inputs, "initial_state"),
                               .chunk_size = options.chunk_size};
  const auto result = SelectiveScan(args, options.path);
  return {{"o", result.o}, {"final_state", result.final_state}};
}

}  // namespace

void Register(CoreRegistry& registry) {
  CoreEntry entry;
  entry.summary =
      "S6: a diagonal state per channel with steps, writes and reads that depend on "
      "the input";
  entry.source = "arXiv 2312.00752";
  entry.inputs = {
      {.name = "u", .shape = "B T D", .help = "inputs"},
      {.name = "delta", .shape = "B T D", .help = "logits of the step: softplus(delta + bias)"},
      {.name = "A_log", .shape = "D N", .full_precision = true, .help = "A = -exp(A_log)"},
      {.name = "B", .shape = "B T G N", .help = "writes, of each group of channels"},
      {.name = "C", .shape = "B T G N", .help = "reads, of each group of channels"},
      {.name = "D",
       .shape = "D",
       .required = false,
       .full_precision = true,
       .help = "skip, times the input; none: no skip"},
      {.name = "delta_bias",
       .shape = "D",
       .required = false,
       .full_precision = true,
       .help = "bias of the step; none: zeros"},
      {.name = "z",
       .shape = "B T D",
       .required = false,
       .help = "logits of the gate silu(z); none: no gate"},
      InitialStateSpec("B D N"),
  };
  entry.outputs = {
      {.name = "o", .shape = "B T D", .help = "what each token reads, gated"},
      FinalStateSpec("B D N"),
  };
  entry.state_pairs = {{"final_state", "initial_state"}};
  entry.device_plans = DevicePlans();
  entry.run = Run;
  registry.Add("selective_scan", std::move(entry));
}

}  // namespace selective_scan
}  // namespace mixerbench::kernels
