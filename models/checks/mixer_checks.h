// The promises of models/mixer.h, checked on any mixer: by the conformance tests on every
// registered one, by `mixer check` on the one that a user names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/checks/subject.h"

namespace mixerbench::models::checks {

// How near two ways to the same numbers must come.
struct Tolerances {
  double same_maths = 0;  // in other shapes, which take other routes through matrix products
  double carried = 0;     // through a carried state, in other pieces
  double derivative = 0;  // by central differences with `step`
  double step = 0;
};

// Of float64 or float32.
Tolerances TolerancesOf(at::ScalarType dtype);

// A mixer in each precision that a check asks for, built when it does.
class Candidate {
 public:
  // Most checks run in `exact`: float64 where the mixer can.
  explicit Candidate(SubjectSpec spec, at::ScalarType exact = at::kDouble);

  const SubjectSpec& spec() const { return spec_; }
  at::ScalarType exact() const { return exact_; }
  const Tolerances& tolerances() const { return tolerances_; }
  const Subject& In(at::ScalarType dtype) const;
  const Subject& InExact() const { return In(exact_); }

 private:
  SubjectSpec spec_;
  at::ScalarType exact_;
  Tolerances tolerances_;
  mutable std::map<at::ScalarType, std::unique_ptr<Subject>> subjects_;
};

// What a check found: the measurement that comes nearest to its tolerance, or passes it the most.
struct Finding {
  bool passed = true;
  std::string where;  // "fast path, dparam"
  double error = 0;
  double tolerance = 0;  // 0: a condition that holds or does not
  std::string reason;    // of a condition that does not hold, or an exception

  void AtMost(const std::string& place, double measured, double allowed);
  void Holds(bool condition, const std::string& otherwise);
};

struct MixerCheck {
  std::string name;     // "causality"
  std::string promise;  // "a token changes no earlier output"
  std::function<Finding(const Candidate&)> run;
};

const std::vector<MixerCheck>& MixerChecks();

// The check; what it throws is a finding that did not pass.
Finding RunCheck(const MixerCheck& check, const Candidate& candidate);

}  // namespace mixerbench::models::checks
