// Parameters of a model: named tensors, drawn from a counter-based generator by name, so that one
// more parameter changes no other and the same seed gives the same weights on every device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/fields.h"

namespace mixerbench::models {

// What a parameter is decides how an initialisation policy treats it.
enum class ParameterRole {
  kLinearWeight,          // [out, in]
  kOwnLinearWeight,       // [out, in], of a layer that draws itself: fla's models pass over it
  kResidualOutputWeight,  // [out, in], the last of a branch that joins the residual stream
  kLinearBias,            // [out]
  kConvWeight,            // depthwise [channels, width], of a short convolution
  kConvBias,              // [channels]
  kEmbedding,             // [rows, width]
  kOwnWeight,   // C and D of state spaces, explicit filters, ...: the mixer's own initialisation
                // stands, and it decays as weights do
  kNormWeight,  // starts at 1
  kNormBias,    // starts at 0
  kSpecial,     // A_log, dt_bias, feature maps, ...: the mixer's own initialisation stands
};

enum class InitPolicy {
  kDefault,  // what each block asks for: U(+-1/sqrt(fan_in)) for linear and convolution weights and
             // biases, N(0, 1) for embeddings
  kZoology,  // linear N(0, 0.02^2), biases 0; kResidualOutputWeight divided by sqrt(2 num_layers);
             // embeddings N(0, 0.02^2); convolutions keep the default
  kMad,      // linear weights keep the default, linear biases 0; embeddings N(0, 0.02^2)
  kMadReset,  // linear N(0, 0.02^2), biases 0, also those that AddFlaggedBias protects from all
              // other policies; embeddings N(0, 0.02^2)
  kMamba,  // as kMad; kResidualOutputWeight divided by sqrt(num_layers), where a layer counts once
           // for each branch that joins the residual stream
  kFla,    // linear and convolution weights N(0, 0.02^2), their biases 0; embeddings N(0, 0.02^2)
};

// How to draw a value.
struct Init {
  enum class Kind { kConstant, kUniform, kNormal, kLogUniform };
  Kind kind = Kind::kConstant;
  double a = 0;  // constant; lower bound; standard deviation; lower bound
  double b = 0;  // upper bound where there is one

  static Init Constant(double value) { return {Kind::kConstant, value, 0}; }
  static Init Uniform(double low, double high) { return {Kind::kUniform, low, high}; }
  static Init Normal(double stddev) { return {Kind::kNormal, stddev, 0}; }
  static Init LogUniform(double low, double high) { return {Kind::kLogUniform, low, high}; }
};

// Rows of a matrix that start alike: those of one linear layer among several in one parameter.
struct RowBlock {
  std::int64_t num_rows = 0;
  Init init;
};

struct Parameter {
  std::string name;   // "layers.0.mixer.q_proj.weight"
  at::Tensor tensor;  // a leaf that requires grad
  ParameterRole role;
  bool weight_decay;  // false for gate parameters (A_log, dt_bias, decays, bonus), which a recipe
                      // may exempt
  // Parameters that a recipe may give a learning rate of their own ("ssm"); empty: that of all.
  std::string lr_group = "";
  // Where layers look for a copy in bf16 (ParameterScope::Shadow); nullptr when none does.
  std::shared_ptr<at::Tensor> narrow = nullptr;
};

// All parameters of one model, in order of creation.
class ParameterSet {
 public:
  ParameterSet(std::uint64_t seed, InitPolicy policy, std::int64_t num_layers, at::Device device,
               at::ScalarType dtype);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::int64_t num_elements() const;

 private:
  friend class ParameterScope;
  // The elements from number `first` on.
  at::Tensor Draw(const std::string& name, const std::vector<std::int64_t>& shape, const Init& init,
                  std::int64_t first = 0) const;
  at::Tensor Add(const std::string& name, const at::Tensor& values, at::ScalarType dtype,
                 ParameterRole role, bool weight_decay, std::string_view lr_group = "");
  Init ApplyPolicy(ParameterRole role, Init init) const;

  std::uint64_t seed_;
  InitPolicy policy_;
  std::int64_t num_layers_;
  at::Device device_;
  at::ScalarType dtype_;
  std::vector<Parameter> parameters_;
};

// A dotted prefix into a ParameterSet. Cheap to copy; the set must outlive it.
class ParameterScope {
 public:
  explicit ParameterScope(ParameterSet& set, std::string prefix = "")
      : set_(&set), prefix_(std::move(prefix)) {}

  ParameterScope Child(std::string_view name) const;

  // The scope "shared." of the whole model: what several layers add there under one name is drawn
  // once and is one tensor.
  ParameterScope Shared() const;

  // Initialised by the set's policy for the role, which may replace `init`.
  at::Tensor Add(std::string_view name, std::vector<std::int64_t> shape, ParameterRole role,
                 Init init) const;

  // One parameter [rows of all blocks, num_columns], the blocks below one another. As Add
  // otherwise: blocks of one init have the values that Add gives all rows together.
  at::Tensor AddRows(std::string_view name, const std::vector<RowBlock>& blocks,
                     std::int64_t num_columns, ParameterRole role) const;

  // Where a layer finds a copy in bf16 of the parameter that Add made, so that it need not form
  // one: undefined unless somebody keeps one equal to the parameter and lends it for the moment.
  // Ends in kernels::kShadowPadding rows of zeros.
  std::shared_ptr<const at::Tensor> Shadow(std::string_view name) const;

  // kSpecial: `init` stands, a recipe may exempt it from weight decay, always at least float32.
  at::Tensor AddSpecial(std::string_view name, std::vector<std::int64_t> shape, Init init,
                        std::string_view lr_group = "") const;

  // AddSpecial for the bias of a linear layer that sources flag to be left alone when they
  // initialise a model anew; MAD's auto-encoder ignores the flag (InitPolicy::kMadReset).
  at::Tensor AddFlaggedBias(std::string_view name, const at::Tensor& values) const;

  // The values that AddSpecial would draw, in float64 on the CPU: for parameters that store a
  // function of what is drawn.
  at::Tensor Draw(std::string_view name, std::vector<std::int64_t> shape, Init init) const;

  // Of the tensors that AddSpecial makes, for constants beside them.
  at::TensorOptions special_options() const;

  // kSpecial with given values: a CPU tensor of any floating dtype.
  at::Tensor AddSpecial(std::string_view name, const at::Tensor& values,
                        std::string_view lr_group = "") const;

 private:
  // In the scope of what is shared: the parameter of that name, if a layer before has added it.
  std::optional<at::Tensor> FindShared(const std::string& full_name, at::IntArrayRef shape) const;

  ParameterSet* set_;
  std::string prefix_;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::InitPolicy> {
  using E = mixerbench::models::InitPolicy;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kDefault, "default"},    {E::kZoology, "zoology"}, {E::kMad, "mad"},
      {E::kMadReset, "mad_reset"}, {E::kMamba, "mamba"},     {E::kFla, "fla"}};
};
