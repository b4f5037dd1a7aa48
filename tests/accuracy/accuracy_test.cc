// Every mixer and core in the registries is as near to fp64 as plain ATen at small sizes on the
// CPU, and the check that says so sees what it should.
// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/accuracy.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>
#include <c10/util/Exception.h>

#include "io/json.h"
#include "kernels/runtime/plain_aten.h"
#include "tests/accuracy/cases.h"
#include "tests/accuracy/table.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::accuracy {
namespace {

const std::vector<Precision> kPrecisions = {Precision::kFp32, Precision::kBf16};

const Sizes kSmall = {.d_model = {16, 32},
                      .num_heads = {1, 2},
                      .head_k_dim = {8, 16},
                      .head_v_dim = {8, 24},
                      .seq_len = {1, 17, 70},
                      .num_rivals = {0, 6},
                      .min_head_dim = 8,
                      .max_elements = 1 << 20};

const models::MixerRegistry& Mixers() {
  static const auto registry = [] {
    models::MixerRegistry built("mixer");
    models::RegisterMixers(built);
    return built;
  }();
  return registry;
}

const kernels::CoreRegistry& Cores() {
  static const auto registry = [] {
    kernels::CoreRegistry built("core");
    kernels::RegisterCores(built);
    return built;
  }();
  return registry;
}

void CheckAll(const std::vector<Case>& cases) {
  TableBuilder table;
  for (const Case& c : cases) {
    const Value& row = table.Add(c.unit, c.factors, Measure(*c.make(), kPrecisions));
    INFO(io::DumpJson(row));
    for (const auto& [precision, result] : row.Find("results")->as_object()) {
      CHECK(result.Find("outcome")->as_string() == "passed");
    }
  }
  const Value built = table.Build();
  for (const Value& pool : built.Find("pools")->as_array()) {
    INFO(io::DumpJson(pool));
    CHECK(pool.Find("ratio")->as_double() <= 1);
  }
}

TEST_CASE("accuracy: every mixer in every configuration is as near to fp64 as plain ATen") {
  for (const auto& [name, entry] : Mixers().entries()) {
    const auto cases = MixerCases(Mixers(), name, kSmall, at::kCPU);
    std::set<std::string> configurations;
    for (const Case& c : cases) {
      Value options = c.factors.at("options");
      options.as_object().erase("num_heads");
      configurations.insert(io::DumpJson(options));
    }
    CAPTURE(name);
    CHECK(configurations.size() == 1 + entry.test_configs.size());
    CheckAll(cases);
  }
}

TEST_CASE("accuracy: every core is as near to fp64 as plain ATen") {
  for (const auto& [name, core] : Cores().entries()) {
    CheckAll(CoreCases(Cores(), name, kSmall, at::kCPU));
  }
}

// Where the device code of a mixer may be wrong, by how much.
struct Fault {
  double input_gradient = 0;
  double output = 0;
  double state = 0;
  double state_gradient = 0;
  double parameter_gradient = 0;
  bool reads_fresh_memory = false;
  bool counts_calls = false;
};

// The gradient of what is returned reaches x times 1 + `fault`.
at::Tensor WithGradientFault(const at::Tensor& x, double fault) {
  const at::Tensor alias = x.view_as(x);
  if (alias.requires_grad()) {
    alias.register_hook([fault](const at::Tensor& gradient) { return gradient * (1 + fault); });
  }
  return alias;
}

// Gated linear attention times a gain, with a fault.
class FaultyMixer final : public models::Mixer {
 public:
  FaultyMixer(const Fault& fault, const models::MixerContext& context,
              const models::ParameterScope& scope)
      : fault_(fault),
        gain_(scope.Add("gain", {context.d_model}, models::ParameterRole::kNormWeight,
                        models::Init::Constant(1))),
        inner_(models::CreateMixer(Object{{"name", "gla"}}, "", WithMixers(context),
                                   scope.Child("inner"))) {}

  models::Mixed Mix(const models::MixerInputs& inputs,
                    const models::MixerOptions& options) const override {
    const Fault fault = FaultOf(options);
    models::MixerOptions inner = options;
    models::State state;
    if (options.initial_state != nullptr) {
      state = *options.initial_state;
      models::ForEach(state, [&](const auto&, models::StateTensor& tensor) {
        tensor.value = WithGradientFault(tensor.value, fault.state_gradient);
      });
      inner.initial_state = &state;
    }
    auto mixed = inner_->Mix({.x = WithGradientFault(inputs.x, fault.input_gradient)}, inner);
    models::ForEach(mixed.final_state, [&](const auto&, models::StateTensor& tensor) {
      tensor.value = tensor.value * (1 + fault.state);
    });
    return mixed;
  }

  at::Tensor Output(const models::Mixed& mixed,
                    const models::MixerOptions& options) const override {
    const Fault fault = FaultOf(options);
    at::Tensor y = inner_->Output(mixed, options);
    const at::Tensor gain = WithGradientFault(gain_, fault.parameter_gradient);
    y = (y * gain * (1 + fault.output)).to(y.scalar_type());
    if (fault.reads_fresh_memory) y = y + 0 * at::empty_like(y);
    if (fault.counts_calls) y = y + 1e-3 * num_calls_++;
    return y;
  }

  models::State InitialState(std::int64_t batch_size) const override {
    return inner_->InitialState(batch_size);
  }

 private:
  Fault FaultOf(const models::MixerOptions& options) const {
    // As of device code.
    const bool runs =
        options.path == models::ExecutionPath::kFast && !kernels::PlainAten::IsAsked();
    return runs ? fault_ : Fault{};
  }

  static models::MixerContext WithMixers(models::MixerContext context) {
    context.registry = &Mixers();
    return context;
  }

  Fault fault_;
  at::Tensor gain_;
  std::unique_ptr<models::Mixer> inner_;
  mutable int num_calls_ = 0;
};

// One case, with an initial state, of a registry that holds the faulty mixer alone.
std::vector<Accuracy> MeasureFault(const Fault& fault) {
  models::MixerRegistry registry("mixer");
  models::MixerEntry entry;
  entry.create = [&](const Value&, const std::string&, const models::MixerContext& context,
                     const models::ParameterScope& scope) {
    return std::make_unique<FaultyMixer>(fault, context, scope);
  };
  registry.Add("faulty", std::move(entry));
  Sizes one = kSmall;
  one.d_model = {32};
  one.seq_len = {20};
  one.num_rivals = {0};
  for (const Case& c : MixerCases(registry, "faulty", one, at::kCPU)) {
    if (c.factors.at("initial_state") == Value(true) &&
        c.factors.at("wanted") == Value("outputs, state")) {
      return Measure(*c.make(), kPrecisions);
    }
  }
  FAIL("no case with states");
  return {};
}

const Comparison& Find(const Accuracy& accuracy, const std::string& name) {
  for (const Comparison& comparison : accuracy.comparisons) {
    if (comparison.name == name) return comparison;
  }
  FAIL("nothing compares " << name);
  return accuracy.comparisons.front();
}

TEST_CASE("accuracy: an error of three times the tolerance is found, wherever it is") {
  const auto honest = MeasureFault({});
  for (std::size_t i = 0; i < honest.size(); ++i) {
    const auto check = [&](double Fault::*place, const std::string& name) {
      CAPTURE(NameOf(honest[i].precision), name);
      const Comparison& before = Find(honest[i], name);
      CHECK(Ratio(before) <= 1);
      Fault fault;
      fault.*place = 3 * Tolerance(before) / before.norm;
      const double ratio = Ratio(Find(MeasureFault(fault)[i], name));
      // Of gradients in the median part of the batch, which leaves more to chance.
      CHECK(ratio > (name.starts_with("d ") ? 1.5 : 2));
      CHECK(ratio < 4);
    };
    CHECK(honest[i].failure.empty());
    check(&Fault::input_gradient, "d x");
    check(&Fault::output, "y");
    check(&Fault::state, "final state");
    check(&Fault::state_gradient, "d initial state");
    check(&Fault::parameter_gradient, "d gain");
  }
}

TEST_CASE("accuracy: what depends on fresh memory or on earlier calls is found") {
  for (const Fault& fault : {Fault{.reads_fresh_memory = true}, Fault{.counts_calls = true}}) {
    for (const Accuracy& accuracy : MeasureFault(fault)) {
      CHECK_THAT(accuracy.failure,
                 Catch::Contains("differs when run again") && Catch::Contains("y"));
    }
  }
}

Sizes Bounded(std::int64_t max_operations) {
  Sizes sizes = kSmall;
  sizes.seq_len = {17, 4096};
  sizes.max_operations = max_operations;
  return sizes;
}

TEST_CASE("accuracy: lengths at which a recurrence takes too many steps are listed as left out") {
  constexpr std::int64_t kMaxOperations = 2000;
  const auto lengths = [&](const std::string& core, bool left_out) {
    std::set<std::int64_t> all;
    for (const Case& c : CoreCases(Cores(), core, Bounded(kMaxOperations), at::kCPU)) {
      CHECK((c.make == nullptr) == !c.left_out.empty());
      CHECK(c.operations <= kMaxOperations);
      if (c.left_out.empty() != left_out) all.insert(c.factors.at("seq_len").as_int());
    }
    return all;
  };
  // One goes token by token, the other chunk by chunk.
  CHECK(lengths("sila", /*left_out=*/false) == std::set<std::int64_t>{17});
  CHECK(lengths("sila", /*left_out=*/true) == std::set<std::int64_t>{4096});
  CHECK(lengths("simple_gla", /*left_out=*/false) == std::set<std::int64_t>{17, 4096});
  CHECK(lengths("simple_gla", /*left_out=*/true).empty());

  // Of mixers for every set of options; every case has the same columns.
  std::size_t num_left_out = 0;
  const auto cases = MixerCases(Mixers(), "sila", Bounded(kMaxOperations), at::kCPU);
  for (const Case& c : cases) {
    CHECK(c.factors.size() == cases.front().factors.size());
    if (c.left_out.empty()) continue;
    ++num_left_out;
    CHECK(c.factors.at("seq_len") == Value(4096));
    CHECK_THAT(c.left_out, Catch::Contains("of at most 2000") && Catch::Contains("a token"));
  }
  CHECK(num_left_out == 1 + Mixers().Find("sila", "").test_configs.size());
}

// One input, x, and no parameters.
class SubjectOfOne : public Subject {
 public:
  explicit SubjectOfOne(const at::Tensor& x) : inputs_{{"x", x}} {}

  const NamedTensors& inputs() const override { return inputs_; }
  at::ScalarType InputType(const std::string&, at::ScalarType dtype) const override {
    return dtype;
  }
  std::vector<std::pair<std::string, at::Tensor>> Parameters(at::ScalarType) const override {
    return {};
  }

 private:
  NamedTensors inputs_;
};

// y = x, after a while.
class SlowSubject final : public SubjectOfOne {
 public:
  explicit SlowSubject(std::chrono::milliseconds delay)
      : SubjectOfOne(testing::RandomNormal({2, 3}, /*seed=*/3)), delay_(delay) {}
  NamedTensors Run(const NamedTensors& inputs, std::int64_t, ExecutionPath,
                   at::ScalarType) const override {
    ++num_runs;
    std::this_thread::sleep_for(delay_);
    return {{"y", inputs.at("x").clone()}};
  }

  mutable int num_runs = 0;

 private:
  std::chrono::milliseconds delay_;
};

TEST_CASE("accuracy: a deadline ends a case between two of its passes") {
  using std::chrono::milliseconds;
  const SlowSubject slow(milliseconds(200));
  const auto deadline = std::chrono::steady_clock::now() + milliseconds(100);
  const auto accuracies = Measure(slow, kPrecisions, deadline);
  CHECK(slow.num_runs == 1);
  REQUIRE(accuracies.size() == kPrecisions.size());
  for (const Accuracy& accuracy : accuracies) {
    CHECK(accuracy.failure == kTimeLimitReached);
    CHECK(!accuracy.skipped);
  }

  const SlowSubject quick(milliseconds(0));
  for (const Accuracy& accuracy : Measure(quick, kPrecisions)) CHECK(accuracy.failure.empty());
}

// A subject on a device with memory for few sequences at a time.
class CrampedSubject final : public Subject {
 public:
  CrampedSubject(std::unique_ptr<Subject> inner, std::int64_t most_sequences)
      : inner_(std::move(inner)), most_sequences_(most_sequences) {}

  const NamedTensors& inputs() const override { return inner_->inputs(); }
  at::ScalarType InputType(const std::string& name, at::ScalarType dtype) const override {
    return inner_->InputType(name, dtype);
  }
  std::vector<std::pair<std::string, at::Tensor>> Parameters(at::ScalarType dtype) const override {
    return inner_->Parameters(dtype);
  }
  NamedTensors Run(const NamedTensors& inputs, std::int64_t first_sequence, ExecutionPath path,
                   at::ScalarType dtype) const override {
    if (inputs.begin()->second.size(0) > most_sequences_) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, "too many sequences");
    }
    return inner_->Run(inputs, first_sequence, path, dtype);
  }

 private:
  std::unique_ptr<Subject> inner_;
  std::int64_t most_sequences_;
};

TEST_CASE("accuracy: what lacks memory runs in pieces, of scored positions too") {
  Sizes one = kSmall;
  one.d_model = {32};
  one.num_heads = {2};
  one.seq_len = {20};
  one.num_rivals = {10};  // six sequences, of which two have an entry of padding
  std::set<std::string> wanted;
  for (const Case& c : MixerCases(Mixers(), "simple_gla", one, at::kCPU)) {
    if (c.factors.at("batch_size") != Value(6)) continue;
    wanted.insert(c.factors.at("wanted").as_string());
    const auto whole = Measure(*c.make(), kPrecisions);
    const auto pieces = Measure(CrampedSubject(c.make(), 2), kPrecisions);
    REQUIRE(pieces.size() == whole.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      INFO(io::DumpJson(c.factors));
      CHECK(pieces[i].failure.empty());
      CHECK(whole[i].num_pieces == 1);
      CHECK(pieces[i].num_pieces == 3);
      REQUIRE(pieces[i].comparisons.size() == whole[i].comparisons.size());
      for (std::size_t j = 0; j < whole[i].comparisons.size(); ++j) {
        CHECK(Ratio(pieces[i].comparisons[j]) <= 1);
        CHECK(pieces[i].comparisons[j].norm == Approx(whole[i].comparisons[j].norm));
      }
    }
  }
  CHECK(wanted.size() == 4);
}

// y = factor x, by a fast path that overflows or not.
class LargeSubject final : public SubjectOfOne {
 public:
  LargeSubject(double factor, bool overflows)
      : SubjectOfOne(testing::RandomNormal({2, 64}, /*seed=*/3)),
        factor_(factor),
        overflows_(overflows) {}
  NamedTensors Run(const NamedTensors& inputs, std::int64_t, ExecutionPath path,
                   at::ScalarType) const override {
    const bool runs = path == ExecutionPath::kFast && overflows_;
    return {{"y", inputs.at("x") * factor_ * (runs ? 1e300 : 1)}};
  }

 private:
  double factor_;
  bool overflows_;
};

TEST_CASE("accuracy: only exact values beyond fp32 leave a case out, an overflow fails") {
  for (const Accuracy& accuracy : Measure(LargeSubject(1e40, false), kPrecisions)) {
    CHECK(accuracy.skipped);
    CHECK(accuracy.failure == "left out: exact values are beyond the range of fp32: y, d x");
  }
  for (const bool overflows : {false, true}) {
    for (const Accuracy& accuracy : Measure(LargeSubject(1e30, overflows), kPrecisions)) {
      CHECK(!accuracy.skipped);
      CHECK(std::isfinite(Ratio(Find(accuracy, "y"))) == !overflows);
    }
  }
}

// y = x w, whose device code gives w a gradient that is off by a factor 1 + fault in some
// sequences.
class FaultySequences final : public SubjectOfOne {
 public:
  explicit FaultySequences(std::vector<double> faults)
      : SubjectOfOne(testing::RandomNormal({std::ssize(faults), 20, 16}, /*seed=*/3, at::kBFloat16)
                         .to(at::kDouble)),
        faults_(std::move(faults)) {
    const at::Tensor w = testing::RandomNormal({16, 16}, /*seed=*/5, at::kBFloat16);
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      weights_[dtype] = w.to(dtype).requires_grad_(true);
    }
  }
  std::vector<std::pair<std::string, at::Tensor>> Parameters(at::ScalarType dtype) const override {
    return {{"w", weights_.at(dtype)}};
  }
  NamedTensors Run(const NamedTensors& inputs, std::int64_t first, ExecutionPath path,
                   at::ScalarType dtype) const override {
    const bool runs = path == ExecutionPath::kFast && !kernels::PlainAten::IsAsked();
    std::vector<at::Tensor> y;
    for (const at::Tensor& sequence : inputs.at("x").unbind()) {
      const double fault = faults_[static_cast<std::size_t>(first) + y.size()];
      y.push_back(sequence.matmul(WithGradientFault(weights_.at(dtype), runs ? fault : 0)));
    }
    return {{"y", at::stack(y)}};
  }

 private:
  std::vector<double> faults_;
  std::map<at::ScalarType, at::Tensor> weights_;
};

TEST_CASE(
    "accuracy: what a few tokens spoil is judged by parts of the batch, a fault in all fails") {
  const auto gradient = [](const std::vector<double>& faults) {
    const auto accuracies = Measure(FaultySequences(faults), kPrecisions);
    for (const Accuracy& accuracy : accuracies) {
      CHECK(accuracy.failure.empty());
      CHECK(Ratio(Find(accuracy, "y")) <= 1);
    }
    return std::pair{Find(accuracies[0], "d w"), Find(accuracies[1], "d w")};
  };
  const auto check = [](const auto& both, std::int64_t num_parts, bool passes) {
    for (const Comparison& c : {both.first, both.second}) {
      CHECK(c.num_parts == num_parts);
      CHECK((Ratio(c) <= 1) == passes);
    }
  };
  check(gradient({0, 0, 0, 0, 0, 0}), 1, true);
  check(gradient({0, 0.5, 0, 0, -0.3, 0}), 6, true);
  check(gradient({0.1, 0.1, 0.1, 0.1, 0.1, 0.1}), 6, false);
  check(gradient({0, 0.2, 0.2, 0.2, 0.2, 0}), 6, false);
  check(gradient({0, 3, 0, 0, 0, 0}), 1, false);  // as much as without a sequence
  check(gradient({0.5, 0}), 1, false);            // no middle
  check(gradient({0, 0, 0, 0, 0, 0, 0, 0, 0, 0.9, 0, 0, 0, 0, 0, 0, 0, 0}), 8, true);
}

// y = x, of a recurrence with large states, right or not by plain ATen in low precision.
class StateSubject final : public SubjectOfOne {
 public:
  StateSubject(double state, double plain, double fast)
      : SubjectOfOne(testing::RandomNormal({2, 64}, /*seed=*/3)),
        state_(state),
        plain_(plain),
        fast_(fast) {}
  NamedTensors Run(const NamedTensors& inputs, std::int64_t, ExecutionPath,
                   at::ScalarType dtype) const override {
    const double factor = kernels::PlainAten::IsAsked() ? plain_ : fast_;
    return {{"y", inputs.at("x") * (dtype == at::kDouble ? 1 : factor)}};
  }
  double LargestState(const NamedTensors&) const override { return state_; }

 private:
  double state_, plain_, fast_;
};

TEST_CASE("accuracy: a case without a measure is left out, one with is not") {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto check = [](const StateSubject& subject, bool left_out, const std::string& reason) {
    for (const Accuracy& accuracy : Measure(subject, kPrecisions)) {
      CHECK(accuracy.skipped == left_out);
      CHECK_THAT(accuracy.failure, Catch::Contains(reason));
      if (!left_out) CHECK_FALSE(Ratio(Find(accuracy, "y")) <= 1);
    }
  };
  check({1e20, infinity, infinity}, true, "exact states reach 1e+20");
  check({1e18, infinity, infinity}, false, "");
  check({0, 1, infinity}, false, "");
  check({0, 0.2, -9}, true, "off by more than half: ");
  check({0, 0.8, -9}, false, "");
}

TEST_CASE("accuracy: titans that hardly forget outgrow fp32") {
  Sizes one = kSmall;
  one.head_k_dim = {64};
  one.head_v_dim = {16};
  one.seq_len = {1000};
  one.num_rivals = {0};
  int num_cases = 0;
  for (const Case& c : CoreCases(Cores(), "titans", one, at::kCPU)) {
    if (c.factors.at("decays") != Value("weak") || c.factors.at("initial_state") == Value(true)) {
      continue;
    }
    ++num_cases;
    for (const Accuracy& accuracy : Measure(*c.make(), kPrecisions)) {
      CHECK(accuracy.skipped);
      CHECK_THAT(accuracy.failure,
                 Catch::Contains("beyond the range of fp32: ") && Catch::Contains("o"));
    }
  }
  CHECK(num_cases > 0);
}

}  // namespace
}  // namespace mixerbench::accuracy
