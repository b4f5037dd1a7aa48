// Charts as inline SVG: lines with bands, scatter, categories. Colours come from the page's style
// sheet (classes s0..s6), so that one drawing serves light, dark and print.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace mixerbench::reports {

// Series beyond this many repeat the colours, with dashes.
inline constexpr int kNumColours = 7;

struct ChartPoint {
  double x = 0;
  std::optional<double> y;    // absent: a failure, marked on the axis
  std::optional<double> low;  // of the band or whisker
  std::optional<double> high;
  bool failed = false;  // part of it failed: marked with a cross
  std::string note;     // shown by a pointer at rest
};

struct ChartSeries {
  std::string label;
  int style = 0;          // which colour, marker and dash
  bool is_faint = false;  // one seed among others: no markers, no label
  std::vector<ChartPoint> points;
};

struct ChartAxis {
  enum class Scale { kLinear, kLog2, kLog10, kCategory };
  enum class Format { kPlain, kPercent, kBytes, kSi };
  std::string label;  // with its unit
  Scale scale = Scale::kLinear;
  Format format = Format::kPlain;
  std::vector<std::string> categories;  // x = 0, 1, ... when the scale is kCategory
  std::optional<double> low;            // of the range; else from the data
  std::optional<double> high;
};

// A dotted line across the plot, or at one x alone.
struct ChartReference {
  double y = 0;
  std::string label;
  std::optional<double> x = std::nullopt;
};

struct Chart {
  std::string title;
  ChartAxis x;
  ChartAxis y;
  std::vector<ChartSeries> series;
  bool has_lines = true;          // false: a scatter
  bool has_direct_labels = true;  // names at the ends of the lines, or at the points of a scatter
  std::vector<ChartReference> references;
  bool has_reference_labels_right = false;  // else at the left end of the lines
  std::optional<double> shade_from_x;       // everything to the right is shaded
  std::string shade_label;
  int width = 560;
  int height = 340;
};

// One <svg> element. Empty when no series has a point.
std::string RenderChart(const Chart& chart);

// The swatch of a series for a legend: a line with its marker.
std::string RenderSwatch(int style);

}  // namespace mixerbench::reports
