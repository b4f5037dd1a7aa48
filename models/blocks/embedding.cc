// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/embedding.h"

#include "kernels/fused/embedding.h"

namespace mixerbench::models {

at::Tensor Embed(const at::Tensor& table, const at::Tensor& tokens, const at::Tensor& positions,
                 double dropout, const BackboneOptions& options) {
  kernels::fused::EmbeddingArgs args{
      .tokens = tokens, .table = table, .positions = positions, .dtype = options.compute_dtype};
  if (options.generator && dropout > 0) {
    args.dropout_p = dropout;
    args.seed = options.generator->Next(table.device());
  }
  return kernels::fused::Embedding(args, options.path);
}

}  // namespace mixerbench::models
