// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/shapes.h"

#include <algorithm>

namespace mixerbench::gate {

using reports::CellResult;
using reports::ThroughputRow;

const ThroughputRow* FindShape(const CellResult& cell, const ThroughputRow& like) {
  const auto found =
      std::find_if(cell.throughput.begin(), cell.throughput.end(), [&](const ThroughputRow& row) {
        return row.phase == like.phase && row.batch_size == like.batch_size &&
               row.seq_len == like.seq_len && row.dtype == like.dtype;
      });
  return found == cell.throughput.end() ? nullptr : &*found;
}

}  // namespace mixerbench::gate
