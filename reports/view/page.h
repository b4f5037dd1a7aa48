// What a page says, without a format: built once from results, walked by HTML and Markdown.
//
// Texts are formatted here, so that all forms agree; nothing is escaped, that is the renderer's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "reports/result/result.h"

namespace mixerbench::reports {

inline constexpr const char* kNone = "–";  // there is no value

// A mixer as readers know it: one colour and marker on all pages.
struct MixerStyle {
  std::string key;     // as in cell names
  std::string label;   // "Gated DeltaNet"
  std::string family;  // "Gated delta rule"; of a hybrid that of its main part
  std::string colour;  // a class of the style sheet: "gla"
  std::string marker;  // "circle", "square", ...
  bool is_hybrid = false;
};

inline constexpr int kNoMixer = -1;  // else an index of Page::mixers

// A rank with the band that resampling gives it, 1 to `of`.
struct RankBand {
  double low = 1;
  double high = 1;
  double place = 1;
  int of = 1;
};

// A number with its place on an axis.
struct Tick {
  double at = 0;
  std::string text;  // may have two lines
};

struct Axis {
  enum class Scale { kLinear, kLog, kOdds };
  std::string label;
  Scale scale = Scale::kLinear;
  double low = 0;
  double high = 1;
  std::vector<Tick> ticks = {};
};

// An interval on the axis of its column; what a margin tolerates is shaded.
struct IntervalPlot {
  double low = 0;
  double high = 0;
  double value = 0;
  double zero = 0;  // no change
  double zone_low = 0;
  double zone_high = 0;
};

struct Datum {
  std::optional<double> value;  // of a text, what it is sorted by
  std::string text = kNone;
  std::string sub = {};  // a small second line: an interval, a chosen rate
  std::optional<double> low = std::nullopt;
  std::optional<double> high = std::nullopt;
  CellState state = CellState::kCompleted;
  std::string note = {};  // shown by a pointer at rest
  std::string link = {};  // a relative path of what the text names
  // The values of the single seeds, of a mean over so many that two such means can be compared.
  std::vector<double> seeds = {};
  bool is_imputed = false;  // a failed seed counts in it as chance
  bool is_best = false;
  bool is_chosen = false;
  bool is_code = false;
  std::optional<double> share = std::nullopt;  // a bar beside the text
  std::optional<RankBand> rank = std::nullopt;
  // "pass", "regression", ...: a sign before the name of a row, the colour of any other cell.
  std::string verdict = {};
  std::optional<IntervalPlot> plot = std::nullopt;
};

struct Column {
  enum class Kind { kText, kNumber, kPlot, kVerdict };
  std::string label;
  Kind kind = Kind::kNumber;
  std::string group = {};      // a header over several columns
  std::string unit = {};       // small, under the label
  bool is_down_first = false;  // sorted from high to low at the first click
  bool wraps = false;
  std::optional<Axis> axis = std::nullopt;  // of the intervals in a column of plots
};

struct Row {
  int mixer = kNoMixer;
  std::vector<Datum> cells;  // by column; the first names the row
};

struct Table {
  std::string key;
  std::string title;
  std::string note;
  std::vector<Column> columns = {};
  std::vector<Row> rows = {};
  std::vector<Row> foot = {};
  bool is_long = false;                                      // folded, with a filter
  std::string summary = {};                                  // of a long table: "All 80 cells"
  std::string elsewhere = "also in report.json and as CSV";  // where a long table's rows stand too
  bool is_stacked = false;       // on a phone every row is a block, for sentences
  std::size_t num_left_out = 0;  // rows without room, which the note tells of
  // What notes say, for pages on which no pointer rests: below the table.
  std::vector<std::string> remarks = {};

  static constexpr std::size_t kMaxRows = 10'000;

  void Add(Row row) {
    if (rows.size() < kMaxRows) {
      rows.push_back(std::move(row));
    } else {
      ++num_left_out;
    }
  }
  std::size_t num_rows() const { return rows.size() + num_left_out; }
};

// "The first 10,000 of 12,000 rows; ..." of a table that leaves rows out, else empty.
std::string LeftOutText(const Table& table);

// The note of a table, and what it leaves out.
std::string NoteOf(const Table& table);

struct Mark {
  double x = 0;
  double y = 0;
  std::optional<double> low = std::nullopt;
  std::optional<double> high = std::nullopt;
  std::string note = {};
  std::string failed = {};  // the word beside a red cross; then y is what a failure counts as
  bool is_never = false;    // in the zone right of the plot
  bool is_ringed = false;
};

struct Series {
  enum class Form { kLine, kThin, kMarks };
  int mixer = kNoMixer;
  Form form = Form::kLine;
  std::vector<Mark> marks = {};
  bool has_marks = true;
  bool has_name = false;
  bool has_band = false;  // between low and high; else whiskers
  bool is_dotted = false;
};

struct Reference {
  double y = 0;
  std::string label = {};
  std::optional<double> x0 = std::nullopt;
  std::optional<double> x1 = std::nullopt;
};

struct Shade {
  std::optional<double> x0 = std::nullopt;
  std::optional<double> y0 = std::nullopt;
  std::string label = {};
};

// One small chart, drawn at the size of a phone.
struct Panel {
  enum class Names { kHidden, kEnds, kNear };
  std::string title;     // may have two lines
  std::string describe;  // the sentence that a screen reader says
  Axis x;
  Axis y;
  std::vector<Series> series = {};
  std::vector<std::vector<Mark>> context = {};  // grey lines behind
  std::vector<Reference> references = {};
  std::vector<Shade> shades = {};
  Names names = Names::kHidden;
  bool is_small = false;
  bool has_rows = false;   // y ticks are names of rows: a wide left margin and lines of the grid
  bool has_never = false;  // a zone for what was never reached
  double height = 0;       // 0: the usual one
};

struct Figure {
  std::string title;
  std::vector<std::string> caption;
  std::vector<Panel> panels;
  std::vector<int> legend = {};
};

struct Heat {
  std::string title;
  std::string corner;
  std::vector<std::string> columns;
  std::vector<std::pair<std::string, std::vector<Datum>>> rows;
};

struct HeatFigure {
  std::string title;
  std::vector<std::string> caption;
  std::vector<Heat> heats;
};

struct Fact {
  std::string term;
  std::string text;
  std::string sub = {};
};

struct Facts {
  std::vector<Fact> facts;
};

// "**One seed.** Intervals cover test items."
struct Sentence {
  std::string lead;
  std::string text;
};

struct Sentences {
  std::string title;
  std::vector<Sentence> list;
};

struct Code {
  std::string title;
  std::string note;
  std::string text;
};

using Block = std::variant<Facts, Table, Figure, HeatFigure, Sentences, Code>;

struct Section {
  std::string id;  // of letters, digits and '-'
  std::string title;
  std::string short_title;
  std::string question;
  std::vector<Block> blocks;
};

// What a page decides, before anything else.
struct Outcome {
  std::string look;  // of a verdict
  std::string word;
  std::string text;
  std::vector<std::pair<std::string, std::int64_t>> counts = {};  // by verdict
};

// Of a page that is made of several reports.
inline constexpr const char* kFooterOfReports =
    "The same reports give the same bytes. Self-contained: no network, no fonts or scripts from "
    "elsewhere.";

struct Page {
  std::string eyebrow;
  std::string title;
  std::string lead;
  std::optional<Outcome> outcome = std::nullopt;
  std::vector<Sentence> banner;  // what makes the page less than it seems: a partial run
  std::vector<Fact> facts;
  std::vector<Sentence> glance;
  std::vector<Sentence> care;
  std::vector<MixerStyle> mixers;
  std::vector<Section> sections;
  std::string footer;
};

// The blocks of one kind in a section, in order.
template <typename T>
std::vector<const T*> BlocksOf(const Section& section) {
  std::vector<const T*> found;
  for (const Block& block : section.blocks) {
    if (const T* item = std::get_if<T>(&block)) found.push_back(item);
  }
  return found;
}

// "Table 1. Ranks": tables with a title and figures are numbered over the page, and a table has a
// key then.
void NumberBlocks(Page& page);

}  // namespace mixerbench::reports
