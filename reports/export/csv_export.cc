// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/text.h"
#include "reports/export/csv_fields.h"
#include "reports/export/export.h"

namespace mixerbench::reports {
namespace {

std::string About(const CellResult& cell) {
  const CellName name = SplitCellName(cell.name);
  return io::CsvField(name.task) + "," + io::CsvField(name.mixer) + "," +
         io::CsvField(name.variant) + "," + std::to_string(cell.seed) + "," +
         io::CsvField(cell.run_id) + ",";
}

// Why clocks were lower, in one field; empty where it is not known, too.
std::string Throttle(const ThroughputRow& row) {
  std::string joined;
  for (const std::string& name : row.throttle.value_or(std::vector<std::string>())) {
    joined += (joined.empty() ? "" : " ") + name;
  }
  return io::CsvField(joined);
}

}  // namespace

std::string RenderCurvesCsv(const SweepReport& report) {
  std::set<std::string> losses;  // of any mixer; a column each, empty for the others
  for (const CellResult& cell : report.cells) {
    for (const LearningPoint& point : cell.learning_curve) {
      for (const auto& [name, loss] : point.auxiliary_losses) losses.insert(name);
    }
  }
  std::string out =
      "task,mixer,variant,seed,run_id,step,train_loss,validation_accuracy,lr,elapsed_s";
  for (const std::string& name : losses) out += "," + io::CsvField("auxiliary_loss." + name);
  out += "\n";
  for (const CellResult& cell : report.cells) {
    const std::string about = About(cell);
    for (const LearningPoint& point : cell.learning_curve) {
      std::vector<std::string> fields = {std::to_string(point.step), Number(point.train_loss),
                                         Number(point.validation_accuracy), Number(point.lr),
                                         Number(point.elapsed_s)};
      for (const std::string& name : losses) {
        const auto found = point.auxiliary_losses.find(name);
        fields.push_back(found == point.auxiliary_losses.end() ? "" : Number(found->second));
      }
      out += about + Line(fields);
    }
  }
  return out;
}

std::string RenderTimingsCsv(const SweepReport& report) {
  std::string out =
      "task,mixer,variant,seed,run_id,phase,batch_size,seq_len,dtype,clock,state,reason,execution,"
      "parity,sample,sample_ms,median_ms,p20_ms,p80_ms,tokens_per_second,peak_memory_bytes,"
      "throttle,throttled_samples_dropped,energy_j\n";
  for (const CellResult& cell : report.cells) {
    const std::string about = About(cell);
    for (const ThroughputRow& row : cell.throughput) {
      const std::string head = about + io::CsvField(row.phase) + "," +
                               std::to_string(row.batch_size) + "," + std::to_string(row.seq_len) +
                               "," + io::CsvField(row.dtype) + "," + io::CsvField(row.clock) + "," +
                               std::string(NameOf(row.state)) + "," + io::CsvField(row.reason) +
                               "," + io::CsvField(row.execution) + "," +
                               io::CsvField(row.parity_check) + ",";
      const std::string tail =
          "," + Number(row.median_ms) + "," +
          (row.spread_ms ? Number(row.spread_ms->low) + "," + Number(row.spread_ms->high) : ",") +
          "," + Number(row.tokens_per_second) + "," + Integer(row.peak_memory_bytes) + "," +
          Throttle(row) + "," + std::to_string(row.throttled_samples_dropped) + "," +
          Number(row.energy_j) + "\n";
      if (row.samples_ms.empty()) out += head + "," + tail;
      for (std::size_t i = 0; i < row.samples_ms.size(); ++i) {
        out += head + std::to_string(i) + "," + Number(row.samples_ms[i]) + tail;
      }
    }
  }
  return out;
}

std::string RenderTapsCsv(const SweepReport& report) {
  std::string out =
      "task,mixer,variant,seed,run_id,axes,tap,path,state,reason,num_sequences,num_values,"
      "num_not_finite,mean,std,min,max\n";
  for (const CellResult& cell : report.cells) {
    const std::string about = About(cell);
    for (const TapRow& row : cell.taps) {
      out += about + io::CsvField(io::DumpJson(Value(row.axes))) + "," + io::CsvField(row.tap) +
             "," + io::CsvField(row.path) + "," + std::string(NameOf(row.state)) + "," +
             io::CsvField(row.reason) + "," + std::to_string(row.num_sequences) + "," +
             std::to_string(row.num_values) + "," + std::to_string(row.num_not_finite) + "," +
             Number(row.mean) + "," + Number(row.std) + "," + Number(row.min) + "," +
             Number(row.max) + "\n";
    }
  }
  return out;
}

}  // namespace mixerbench::reports
