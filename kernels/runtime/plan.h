// What ran: dispatchers tell which of their implementations they chose, and a recorder keeps it.
//
//   PlanRecorder recorder;                      // of this thread, while it lives
//   const PlanScope scope("layers.0");          // names what is called inside
//   Gla(args, ExecutionPath::kFast);
//   recorder.records()                          // {"layers.0", "gla", "fused", "fused"}
//
// Off unless somebody records: telling is then one comparison. Plans are functions of sizes, dtype
// and device alone, so that of the backward pass, which may run on another thread, is told together
// with the forward pass. No torch, no CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mixerbench::kernels {

// Names of plans that several functions have; others belong to one function ("whole").
inline constexpr std::string_view kReferencePlan = "reference";   // token by token
inline constexpr std::string_view kAtenPlan = "aten";             // ATen's functions
inline constexpr std::string_view kAtenChunkPlan = "aten_chunk";  // chunk by chunk, ATen's products
inline constexpr std::string_view kFusedPlan = "fused";           // one kernel for a pass
inline constexpr std::string_view kChunkScanPlan = "chunk_scan";  // a CTA scans all chunks
inline constexpr std::string_view kChunkParallelPlan = "chunk_parallel";  // several scan segments
inline constexpr std::string_view kScoredPlan = "scored";  // of scored positions alone

// Reasons that do not depend on sizes.
inline constexpr std::string_view kOnCpu = "runs on the CPU";
inline constexpr std::string_view kReferenceAsked = "the reference path was asked for";

struct PlanRecord {
  std::string scope;     // of PlanScope, joined by "."; empty outside
  std::string function;  // "gla": a core or a fused function
  std::string forward;   // name of the plan
  std::string backward;  // empty when no gradient will be formed
  std::string reason;    // why the plan meant for a GPU was not taken; empty when it was

  friend bool operator==(const PlanRecord&, const PlanRecord&) = default;
};

// Keeps what the dispatchers of this thread choose while it lives; inner recorders hide outer ones.
class PlanRecorder {
 public:
  PlanRecorder();
  ~PlanRecorder();
  PlanRecorder(const PlanRecorder&) = delete;
  PlanRecorder& operator=(const PlanRecorder&) = delete;

  // In the order of the calls; equal ones once.
  const std::vector<PlanRecord>& records() const { return records_; }

 private:
  friend class PlanScope;
  friend bool RecordsPlans();
  friend void RecordPlan(std::string_view, std::string_view, std::string_view, std::string_view);

  static thread_local PlanRecorder* current_;
  PlanRecorder* outer_;
  std::string scope_;
  std::vector<PlanRecord> records_;
};

// Prefixes what this thread's recorder records while it lives; scopes nest: "layers.0.inner".
class PlanScope {
 public:
  explicit PlanScope(std::string_view name);
  ~PlanScope();
  PlanScope(const PlanScope&) = delete;
  PlanScope& operator=(const PlanScope&) = delete;

 private:
  PlanRecorder* recorder_;  // nullptr: nobody records
  std::size_t outer_size_ = 0;
};

// Whether somebody records, for dispatchers whose telling costs something.
bool RecordsPlans();

// What dispatchers call. `backward` is empty when no gradient will be formed.
void RecordPlan(std::string_view function, std::string_view forward, std::string_view backward,
                std::string_view reason = {});

// What device code was asked for: a result, or why it does not take these tensors.
template <typename Result>
struct DeviceAttempt {
  std::optional<Result> result;
  std::string refusal;  // empty with a result, or when another implementation is the better one
};

}  // namespace mixerbench::kernels
