// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/embedding.h"

namespace mixerbench::models {

kernels::EmbeddingResult Embed(const at::Tensor& table, const at::Tensor& tokens,
                               const at::Tensor& positions, double dropout,
                               const kernels::Norm& norm, const BackboneOptions& options) {
  kernels::EmbeddingArgs args{.tokens = tokens,
                              .table = table,
                              .positions = positions,
                              .dtype = options.compute_dtype,
                              .norm = norm};
  if (options.generator && dropout > 0) {
    args.dropout_p = dropout;
    args.seed = options.generator->Next(table.device());
  }
  return kernels::Embedding(args, options.path);
}

}  // namespace mixerbench::models
