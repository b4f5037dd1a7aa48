// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/plan.h"

#include <thread>

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

TEST_CASE("plan: a recorder keeps what is told while it lives, equal records once") {
  RecordPlan("linear", "aten", "aten");  // no recorder
  CHECK_FALSE(RecordsPlans());
  const PlanRecorder recorder;
  CHECK(RecordsPlans());
  RecordPlan("linear", "aten", "", kOnCpu);
  RecordPlan("linear", "aten", "", kOnCpu);
  RecordPlan("linear", "aten", "aten", kOnCpu);
  CHECK(recorder.records() ==
        std::vector<PlanRecord>{{"", "linear", "aten", "", "runs on the CPU"},
                                {"", "linear", "aten", "aten", "runs on the CPU"}});
}

TEST_CASE("plan: scopes nest and end") {
  const PlanScope unheard("before");
  const PlanRecorder recorder;
  {
    const PlanScope layer("layers.1");
    RecordPlan("f", "a", "");
    {
      const PlanScope inner("inner");
      RecordPlan("f", "b", "");
    }
    RecordPlan("f", "c", "");
  }
  RecordPlan("f", "d", "");
  const std::vector<PlanRecord> expected = {{"layers.1", "f", "a", "", ""},
                                            {"layers.1.inner", "f", "b", "", ""},
                                            {"layers.1", "f", "c", "", ""},
                                            {"", "f", "d", "", ""}};
  CHECK(recorder.records() == expected);
}

TEST_CASE("plan: recorders nest and belong to one thread") {
  const PlanRecorder outer;
  {
    const PlanRecorder inner;
    RecordPlan("f", "a", "");
    CHECK(inner.records().size() == 1);
  }
  std::thread([] {
    RecordPlan("f", "b", "");
    CHECK_FALSE(RecordsPlans());
  }).join();
  CHECK(outer.records().empty());
  RecordPlan("f", "c", "");
  CHECK(outer.records().size() == 1);
}

}  // namespace
}  // namespace mixerbench::kernels
