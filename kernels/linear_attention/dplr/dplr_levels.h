// Reads within a chunk, with a decay per key channel and no positive exponent: dplr.md, "levels".
//
// M chunks of C tokens, C a power of two. Each token has two readers, rows of `readers` [M,C,2,K]:
// the first (0) reads what was written before it, the second (1) also what its own token writes;
// and two writers, rows of `writers` [M,C,2,K].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace mixerbench::kernels::dplr {

// exp of the sums of log decays [M,C,W] over blocks of 1, 2, 4, ..., C tokens: [M,C,W], [M,C/2,W],
// ..., [M,1,W]. W is K, or 1: the same decay for all channels.
std::vector<at::Tensor> BlockDecays(const at::Tensor& log_decay);

// What the products of one level multiply: of every block of 2 h tokens the readers of the second
// half, decayed since it began, and the writers of the first, decayed until it ends. [M P,2 h,K]
struct LevelOperands {
  at::Tensor later_readers;
  at::Tensor earlier_writers;
};

struct Levels {
  at::Tensor readers;                   // [M,C,2,K], decayed since the chunk began
  at::Tensor writers;                   // [M,C,2,K], decayed until it ends
  std::vector<LevelOperands> operands;  // of h = 1, 2, ..., C/2; if kept
};

enum class LevelPass { kScores, kOperands };

// Climbs from tokens to the chunk. kScores fills `scores` [M,2C,2C], zeros before: what each reader
// finds of each writer; kOperands keeps the operands instead, for DescendLevels.
Levels ClimbLevels(const at::Tensor& readers, const at::Tensor& writers,
                   const std::vector<at::Tensor>& decays, LevelPass pass, const at::Tensor& scores);

struct LevelGradients {
  at::Tensor readers;    // [M,C,2,K]
  at::Tensor writers;    // [M,C,2,K]
  at::Tensor log_decay;  // [M,C,W]
};

// The adjoint of ClimbLevels, from the gradients of the decayed readers and writers, of the scores
// and of the log decay of whole chunks [M,1,W]. Overwrites `d_readers` and `d_writers`.
LevelGradients DescendLevels(const at::Tensor& readers, const at::Tensor& writers,
                             const std::vector<at::Tensor>& decays,
                             const std::vector<LevelOperands>& operands,
                             const at::Tensor& d_readers, const at::Tensor& d_writers,
                             const at::Tensor& d_scores, const at::Tensor& d_chunk_log_decay);

}  // namespace mixerbench::kernels::dplr
