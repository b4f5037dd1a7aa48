// How a model is trained: an aggregate with the defaults of a named recipe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "base/value.h"

namespace mixerbench::harness {

// Of the rate after warm-up: lr_s = min + (lr - min) d(s), where s goes from 0 to 1 over the run.
enum class Schedule {
  kConstant,     // lr
  kCosine,       // d = (1 + cos(pi s)) / 2, from step to step
  kCosineEpoch,  // the same, constant inside an epoch: s = epoch / num_epochs
  kLinear,       // d = 1 - s, from step to step
  kLinearEpoch,  // the same, constant inside an epoch
};

enum class LossMode {
  kScored,
  kAllTokens,
  kTargetOnly,
  kWeighted,  // all tokens, answers by how far back they lie (SILA, Algorithm 1)
};

// What "validation accuracy" is, which stops trainings and chooses settings.
enum class ValidationMetric {
  kAccuracy,              // share of the scored positions of all segments
  kAccuracyPerExample,    // mean over sequences of their shares
  kAccuracyMacroBatched,  // mean recall over tokens, of batches of 128 sequences: MAD's
};

enum class Dtype { kFp32, kTf32, kBf16 };

enum class BatchOrder {
  kFixed,            // segments and samples in order, the same every epoch
  kShuffleBatches,   // fixed batches, in a new order every epoch
  kShuffleExamples,  // new batches in a new order every epoch; batches never mix segments
  kStages,           // a curriculum: one segment an epoch, each for as many epochs in a row
};

// The group of parameters (models::Parameter::lr_group) whose rate is ssm_lr.
inline constexpr std::string_view kStateSpaceGroup = "ssm";

inline constexpr std::int64_t kMaxBatchSize = 1'048'576;

struct TrainConfig {
  // Change results.
  std::string recipe = "zoology";  // the source of the defaults below
  double lr = 1e-3;                // peak learning rate of AdamW
  double weight_decay = 0.1;
  // False: gate parameters (A_log, dt_bias, ...), biases and norms are exempt.
  bool decay_all_parameters = true;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double grad_clip = 0;  // global norm; 0: off
  Schedule schedule = Schedule::kCosineEpoch;
  double min_lr = 0;
  std::int64_t warmup_steps = 0;  // of a linear rise to the rate of the schedule
  double ssm_lr = 0;  // peak rate of the parameters of state spaces, without decay; 0: as all
  // Weights of auxiliary losses by name; others keep the weight that their mixer gives them.
  Value auxiliary_losses = Object{};
  std::int64_t num_epochs = 64;
  std::int64_t steps_per_epoch = 0;  // needed for online data, else counted from the data
  std::int64_t max_steps = 0;        // 0: num_epochs decides
  std::int64_t batch_size = 512;
  BatchOrder batch_order = BatchOrder::kShuffleExamples;
  LossMode loss_mode = LossMode::kScored;
  // Of kWeighted: lambda, and the steps in which tokens of weight 1 fade by e; 0: a 15th of all.
  double loss_distance_weight = 0.5;
  double loss_fade_steps = 0;
  Dtype dtype = Dtype::kFp32;  // of activations; parameters and states stay fp32
  ValidationMetric validation_metric = ValidationMetric::kAccuracy;
  double early_stop_accuracy = 0.99;       // on validation, after an epoch; 0: never stop early
  double solved_accuracy = 0.95;           // validation accuracy that steps_to_threshold waits for
  std::int64_t eval_batch_tokens = 65536;  // changes speed, and results by rounding alone
  std::int64_t eval_piece_len = 4096;  // longer inputs are evaluated in pieces with carried state
};

// Strict field list; `recipe` must be first resolved by RecipeDefaults.
const Fields<TrainConfig>& TrainFields();

// Defaults of a recipe ("zoology", "mad", "mad-cosine"). Throws ConfigError at `where`.
TrainConfig RecipeDefaults(std::string_view recipe, const std::string& where);
std::vector<std::string> RecipeNames();

// Defaults of its recipe overwritten by `value`, then range checks. Throws ConfigError.
TrainConfig ParseTrainConfig(const Value& value, const std::string& where);

}  // namespace mixerbench::harness

namespace mixerbench {
template <>
struct EnumNames<harness::Schedule> {
  static constexpr std::array<std::pair<harness::Schedule, std::string_view>, 5> kNames = {
      {{harness::Schedule::kConstant, "constant"},
       {harness::Schedule::kCosine, "cosine"},
       {harness::Schedule::kCosineEpoch, "cosine_epoch"},
       {harness::Schedule::kLinear, "linear"},
       {harness::Schedule::kLinearEpoch, "linear_epoch"}}};
};
template <>
struct EnumNames<harness::LossMode> {
  static constexpr std::array<std::pair<harness::LossMode, std::string_view>, 4> kNames = {
      {{harness::LossMode::kScored, "scored"},
       {harness::LossMode::kAllTokens, "all_tokens"},
       {harness::LossMode::kTargetOnly, "target_only"},
       {harness::LossMode::kWeighted, "weighted"}}};
};
template <>
struct EnumNames<harness::ValidationMetric> {
  static constexpr std::array<std::pair<harness::ValidationMetric, std::string_view>, 3> kNames = {
      {{harness::ValidationMetric::kAccuracy, "accuracy"},
       {harness::ValidationMetric::kAccuracyPerExample, "accuracy_per_example"},
       {harness::ValidationMetric::kAccuracyMacroBatched, "accuracy_macro_batched"}}};
};
template <>
struct EnumNames<harness::Dtype> {
  static constexpr std::array<std::pair<harness::Dtype, std::string_view>, 3> kNames = {
      {{harness::Dtype::kFp32, "fp32"},
       {harness::Dtype::kTf32, "tf32"},
       {harness::Dtype::kBf16, "bf16"}}};
};
template <>
struct EnumNames<harness::BatchOrder> {
  static constexpr std::array<std::pair<harness::BatchOrder, std::string_view>, 4> kNames = {
      {{harness::BatchOrder::kFixed, "fixed"},
       {harness::BatchOrder::kShuffleBatches, "shuffle_batches"},
       {harness::BatchOrder::kShuffleExamples, "shuffle_examples"},
       {harness::BatchOrder::kStages, "stages"}}};
};
}  // namespace mixerbench
