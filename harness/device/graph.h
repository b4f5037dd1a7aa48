// Work that is queued again and again with the same shapes: run once as it is, then captured as a
// CUDA graph and replayed. Both are executions of the same function and give the same bits.
// Linked with graph_cuda.cc or graph_stub.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include "kernels/runtime/plan.h"

namespace mixerbench::harness {

class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  // Queues the captured work on the current stream.
  virtual void Replay() = 0;
};

// Device memory that all graphs of one context share: they are replayed one after the other.
class GraphMemory {
 public:
  virtual ~GraphMemory() = default;
};

// What another language around the program asks for. Each is called, and what it returns is held
// for as long as is said.
struct GraphHolds {
  // A capture: a collector of garbage must not destroy a graph beside it.
  std::function<std::shared_ptr<void>()> capture = [] { return nullptr; };
  // The begin of a capture, whose graph registers the generator that torch has for the device.
  std::function<std::shared_ptr<void>()> begin = [] { return nullptr; };
  // Work on a GPU, which may draw from this generator and, in a graph, from no other. Empty where
  // no work draws.
  std::function<std::shared_ptr<void>(const at::Generator&)> work = {};
};
// From now on, for work that has not run. Nothing is held before.
void HoldInGraphs(GraphHolds holds);

// What the graphs of one cell have in common. Must outlive its RepeatedWork.
class GraphContext {
 public:
  // Captures when `use_graphs` and the device can; otherwise work just runs, for `reason` on a GPU.
  GraphContext(at::Device device, bool use_graphs, std::string reason = "--no-graph");
  // The same for work that cannot be captured, for this reason.
  GraphContext WithoutGraphs(std::string reason) const;

  at::Device device() const { return device_; }
  // Whether repeated work is captured. Turns false when a capture fails.
  bool use_graphs() const { return use_graphs_; }
  // Why a GPU captures nothing (more); empty when it does, and on the CPU.
  const std::string& eager_reason() const { return eager_reason_; }
  // Seconds spent capturing so far.
  double capture_s() const { return capture_s_; }

  // Sees the plans of every work after its first run; what it throws ends that run.
  using PlanCheck = std::function<void(const std::vector<kernels::PlanRecord>&)>;
  void CheckPlans(PlanCheck check) { check_plans_ = std::move(check); }

 private:
  friend class RepeatedWork;
  // nullptr when the work cannot be captured: it waits for the device, say. Lack of memory is
  // thrown, as ever. Of a capture that breaks, `generator` is another one.
  std::unique_ptr<CapturedGraph> Capture(at::Generator& generator,
                                         const std::function<void()>& work);

  at::Device device_;
  bool use_graphs_;
  std::shared_ptr<GraphMemory> memory_;
  std::string eager_reason_;
  PlanCheck check_plans_;
  double capture_s_ = 0;
};

// Keeps the repeated work of every other thread off a CUDA device while it lives, and waits for
// what they have queued. For what runs for the first time: libraries load code and make plans then,
// and first kernels of cuFFT beside the graphs of others were seen to read addresses that do not
// exist (docs/RELIABILITY.md, row 9). Nothing on the CPU.
class FirstRun {
 public:
  explicit FirstRun(at::Device device);
  ~FirstRun();
  FirstRun(const FirstRun&) = delete;
  FirstRun& operator=(const FirstRun&) = delete;

 private:
  at::Device device_;
};

class RepeatedWork {
 public:
  // `work` must queue the same operations on the same memory at every call and wait for nothing.
  // Tensors that it makes are gone when it returns; what it leaves behind goes to tensors made
  // outside.
  RepeatedWork(GraphContext& context, std::function<void()> work)
      : context_(&context), work_(std::move(work)) {}

  // The first call runs the work: libraries create their handles and load their code, which a
  // capture does not allow. The second captures it. What the work draws from the generator of
  // GraphHolds::work comes of `seed`, run as it is or replayed.
  void Run(std::uint64_t seed = 0);

  bool has_run() const { return has_run_; }
  // What the functions inside chose (kernels/runtime/plan.h); empty before the first run. Plans
  // depend on shapes alone, so replays run the same.
  const std::vector<kernels::PlanRecord>& plans() const { return plans_; }
  // Whether the last run replayed a graph, and why not: empty on the CPU.
  bool is_graph() const { return graph_ != nullptr; }
  std::string eager_reason() const;

 private:
  void RunFirst(std::uint64_t seed);
  void RunAsItIs(std::uint64_t seed);

  GraphContext* context_;
  std::function<void()> work_;
  std::vector<kernels::PlanRecord> plans_;
  at::Generator generator_;  // undefined where nobody asks for it
  std::unique_ptr<CapturedGraph> graph_;
  bool has_run_ = false;
};

namespace internal {  // defined in graph_cuda.cc or graph_stub.cc
std::shared_ptr<GraphMemory> MakeGraphMemory(at::Device device);
// Gives back the device memory that the framework keeps for later; a capture cannot do it itself.
void ReleaseCachedMemory();
// Throws what the work or the capture throws; the device is usable afterwards, `generator`, which
// may be undefined, is not. What `hold` returns is held while the capture begins.
std::unique_ptr<CapturedGraph> CaptureGraph(const std::shared_ptr<GraphMemory>& memory,
                                            const at::Generator& generator,
                                            const std::function<std::shared_ptr<void>()>& hold,
                                            const std::function<void()>& work);
}  // namespace internal

}  // namespace mixerbench::harness
