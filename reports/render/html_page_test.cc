// The page: well-formed by a strict reader, self-contained, harmless, the same bytes every time,
// and quick for 10,000 cells.
// SPDX-License-Identifier: Apache-2.0
#include "reports/render/html_page.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ctime>
#include <map>
#include <set>
#include <string>
#include <sys/resource.h>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "reports/render/markdown_page.h"
#include "reports/render/panel_svg.h"
#include "reports/summary/sweep_report.h"
#include "reports/testing/test_cells.h"
#include "reports/view/figures.h"
#include "reports/view/report_page.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

// What a hostile config or error text may hold: markup, formulas, terminal escapes, broken UTF-8,
// text that runs backwards, line ends.
const std::string kHostile =
    "=cmd|'/c'!A1 <script>alert(1)</script></style>\"'&\n| **x** [a](javascript:b) `c`\x1b[2J\xff"
    "\xe2\x80\xae";

SweepReport Hostile() {
  std::vector<CellResult> cells = ExampleSweep(2);
  for (CellResult& cell : cells) cell.environment = Object{{"gpu", Object{{"name", kHostile}}}};
  cells.back().name = "mqar/" + kHostile;
  cells.back().reason = kHostile;
  cells.back().state = CellState::kError;
  cells[0].accuracy[0].axes[kHostile] = 5;
  cells[0].accuracy[1].bucket = kHostile;
  ThroughputRow& row = cells[1].throughput.emplace_back();
  row.phase = row.dtype = row.reason = kHostile;
  row.state = CellState::kOom;
  return MakeSweepReport(kHostile, Object{{"description", kHostile}}, std::move(cells));
}

// Reads elements, attributes and character data as strictly as XML does, but for the void elements
// of HTML and the raw text of style and script. Fails on what a browser would repair in silence.
class StrictReader {
 public:
  explicit StrictReader(const std::string& html) : text_(html) {}

  std::string Check() {
    if (!text_.starts_with("<!DOCTYPE html>")) return "no doctype";
    at_ = 15;
    while (at_ < text_.size() && fault_.empty()) {
      if (text_[at_] == '<') {
        Tag();
      } else if (text_[at_] == '&') {
        Entity();
      } else {
        if (text_[at_] == '>') Fault("a bare >");
        ++at_;
      }
    }
    if (fault_.empty() && !open_.empty()) Fault("<" + open_.back() + "> is not closed");
    return fault_;
  }

  const std::map<std::string, int>& elements() const { return count_; }
  const std::set<std::string>& ids() const { return ids_; }

 private:
  void Fault(const std::string& what) {
    if (fault_.empty()) fault_ = what + " at " + text_.substr(at_ > 40 ? at_ - 40 : 0, 120);
  }

  void Entity() {
    static const std::set<std::string> kKnown = {"amp", "lt", "gt", "quot", "#39", "#10"};
    const std::size_t end = text_.find(';', at_);
    if (end == text_.npos || !kKnown.contains(text_.substr(at_ + 1, end - at_ - 1))) {
      Fault("an unknown entity");
    }
    at_ = end + 1;
  }

  void Tag() {
    static const std::set<std::string> kVoid = {"meta", "input", "br"};
    static const std::set<std::string> kKnown = {
        "html",  "head",       "body",    "title", "style",   "script",  "header",
        "main",  "footer",     "section", "nav",   "div",     "p",       "ul",
        "ol",    "li",         "h1",      "h2",    "h3",      "b",       "small",
        "span",  "a",          "dl",      "dt",    "dd",      "table",   "caption",
        "thead", "tbody",      "tfoot",   "tr",    "th",      "td",      "button",
        "label", "output",     "code",    "pre",   "details", "summary", "figure",
        "svg",   "figcaption", "g",       "path",  "rect",    "circle",  "text"};
    const bool closes = text_[at_ + 1] == '/';
    std::size_t i = at_ + (closes ? 2 : 1);
    std::string name;
    while (i < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[i])) != 0)) {
      name += text_[i++];
    }
    if (!kKnown.contains(name) && !kVoid.contains(name)) return Fault("an unknown <" + name + ">");
    if (closes) {
      if (open_.empty() || open_.back() != name) return Fault("</" + name + "> closes another");
      open_.pop_back();
      if (text_[i] != '>') return Fault("text in a closing tag");
      at_ = i + 1;
      return;
    }
    ++count_[name];
    std::set<std::string> attributes;
    while (text_[i] == ' ' || text_[i] == '\n') {
      while (text_[i] == ' ' || text_[i] == '\n') ++i;
      std::string key;
      while (std::isalnum(static_cast<unsigned char>(text_[i])) != 0 || text_[i] == '-' ||
             text_[i] == ':') {
        key += text_[i++];
      }
      if (key.empty()) break;
      if (!attributes.insert(key).second) return Fault("attribute " + key + " twice");
      if (key.starts_with("on") || key == "style") return Fault("attribute " + key);
      if (text_[i] != '=') continue;  // without a value
      if (text_[i + 1] != '"') return Fault("an attribute without quotes");
      const std::size_t end = text_.find('"', i + 2);
      const std::string value = text_.substr(i + 2, end - i - 2);
      if (value.find('<') != value.npos) return Fault("< in an attribute");
      if (key == "id" && !ids_.insert(value).second) return Fault("id " + value + " twice");
      if ((key == "href" || key == "src") && !value.starts_with('#')) return Fault("a link out");
      i = end + 1;
    }
    const bool is_empty = text_[i] == '/';
    if (is_empty) ++i;
    if (text_[i] != '>') return Fault("a tag without end");
    at_ = i + 1;
    if (name == "style" || name == "script") {
      const std::size_t end = text_.find("</" + name + ">", at_);
      at_ = end + name.size() + 3;
    } else if (!is_empty && !kVoid.contains(name)) {
      open_.push_back(name);
    }
  }

  const std::string& text_;
  std::size_t at_ = 0;
  std::vector<std::string> open_;
  std::map<std::string, int> count_;
  std::set<std::string> ids_;
  std::string fault_;
};

}  // namespace

TEST_CASE("A page is well-formed and links to its own sections", "[reports][html]") {
  const SweepReport report = MakeSweepReport("example", {}, ExampleSweep(3));
  const std::string html = RenderHtmlPage(MakeReportPage(report));
  StrictReader reader(html);
  CHECK(reader.Check().empty());
  CHECK(reader.elements().at("h1") == 1);
  CHECK(reader.elements().at("script") == 1);
  CHECK(reader.elements().at("style") == 1);
  CHECK(reader.elements().at("svg") > 10);
  for (std::size_t at = 0; (at = html.find("href=\"#", at)) != html.npos; ++at) {
    const std::string id = html.substr(at + 7, html.find('"', at + 7) - at - 7);
    CHECK(reader.ids().contains(id));
  }
}

TEST_CASE("Nothing of a hostile name acts", "[reports][html]") {
  const Page page = MakeReportPage(Hostile());
  const std::string html = RenderHtmlPage(page);
  CHECK(StrictReader(html).Check().empty());
  CHECK(html.find("<script>alert") == html.npos);
  CHECK(html.find('\x1b') == html.npos);
  CHECK(html.find('\xff') == html.npos);
  CHECK(html.find("\xe2\x80\xae") == html.npos);
  const std::string markdown = RenderMarkdownPage(page);
  CHECK(markdown.find("<script") == markdown.npos);
  const std::size_t link = markdown.find("](javascript");
  CHECK((link == markdown.npos || markdown[link - 1] == '\\'));  // an escaped bracket links nothing
  CHECK(markdown.find('\x1b') == markdown.npos);
}

TEST_CASE("A page reaches for nothing outside and allows its own style and script by hash",
          "[reports][html]") {
  const std::string html =
      RenderHtmlPage(MakeReportPage(MakeSweepReport("example", {}, ExampleSweep(1))));
  for (const char* outside : {"http:", "https:", "url(", "@import", "src="}) {
    CHECK(html.find(outside) == html.npos);
  }
  CHECK(html.find("default-src 'none'") != html.npos);
  CHECK(html.find("unsafe-inline") == html.npos);
}

TEST_CASE("What a pointer shows in HTML stands below the table in Markdown", "[reports][html]") {
  Table table;
  table.title = "Beside.";
  table.columns = {{.label = "Mixer"}, {.label = "Source"}};
  Datum name, source;
  name.text = "GLA";
  source.text = "paper";
  source.note = "secondary: read in notes";
  table.Add({.cells = {name, source}});
  table.remarks = {"paper: secondary: read in *notes*"};
  Page page;
  page.sections.push_back(
      {.id = "s", .title = "S", .short_title = "S", .question = "", .blocks = {table}});
  CHECK(RenderMarkdownPage(page).find("| paper |\n\n- paper: secondary: read in \\*notes\\*\n\n") !=
        std::string::npos);
  CHECK(RenderHtmlPage(page).find("data-tip=\"secondary: read in notes\"") != std::string::npos);
}

TEST_CASE("The same cells in another order give the same bytes", "[reports][html]") {
  std::vector<CellResult> cells = ExampleSweep(3);
  const std::string first = RenderHtmlPage(MakeReportPage(MakeSweepReport("e", {}, cells)));
  std::reverse(cells.begin(), cells.end());
  CHECK(RenderHtmlPage(MakeReportPage(MakeSweepReport("e", {}, cells))) == first);
}

TEST_CASE("A report without cells, and one of planned cells alone, are pages", "[reports][html]") {
  for (const bool is_planned : {false, true}) {
    std::vector<CellResult> cells;
    if (is_planned) {
      cells = ExampleSweep(1);
      for (CellResult& cell : cells) {
        cell.state = CellState::kPlanned;
        cell.accuracy.clear();
        cell.learning_curve.clear();
        cell.throughput.clear();
      }
    }
    const std::string html = RenderHtmlPage(MakeReportPage(MakeSweepReport("e", {}, cells)));
    CHECK(StrictReader(html).Check().empty());
  }
}

TEST_CASE("10,000 cells in 5 seconds of one core and 1 GiB", "[reports][html]") {
  std::vector<CellResult> cells;
  for (int variant = 0; cells.size() < 10'000; ++variant) {
    for (CellResult cell : ExampleSweep(10)) {
      const std::string lr = ",lr=0.00" + std::to_string(variant);
      cell.name += lr;
      cell.group_id += lr;
      cell.run_id = "sha256:" + Sha256Hex(cell.run_id + lr);
      cells.push_back(std::move(cell));
    }
  }
  const SweepReport report = MakeSweepReport("many", {}, std::move(cells));
  const std::clock_t start = std::clock();
  const std::string html = RenderHtmlPage(MakeReportPage(report));
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  CAPTURE(seconds, usage.ru_maxrss, html.size());
  CHECK(StrictReader(html).Check().empty());
#ifdef __OPTIMIZE__
  CHECK(seconds < 5);
#endif
  CHECK(usage.ru_maxrss < 1024 * 1024);  // KiB
  CHECK(html.size() < 32U << 20);
}

TEST_CASE("A rate in a head stays on one line, as elsewhere it stays text to copy",
          "[reports][html]") {
  Page page;
  page.title = "e-2";
  Table table{.key = "k", .title = "T", .note = "lr 4.64e-4"};
  table.columns = {{.label = "Mixer", .kind = Column::Kind::kText},
                   {.label = "lr 4.64e-4", .group = "Steps: lr 1e-3", .unit = "e-gla"}};
  Datum named;
  named.text = "lr 2.15e-3";
  table.Add({.cells = {named, Datum{}}});
  page.sections.push_back(
      {.id = "s", .title = "S", .short_title = "S", .question = "", .blocks = {table}});
  const std::string html = RenderHtmlPage(page);
  CHECK((html.find("lr 4.64e\u20114<small>e-gla") != std::string::npos));
  CHECK((html.find("Steps: lr 1e\u20113") != std::string::npos));
  CHECK((html.find("lr 2.15e-3") != std::string::npos));
  CHECK((html.find("</b> lr 4.64e-4") != std::string::npos));
}

TEST_CASE("A table with more columns than paper has room for is printed small", "[reports][html]") {
  const auto is_wide = [](std::size_t num_columns) {
    Page page;
    page.title = "t";
    Table table{.key = "k", .title = "T", .note = ""};
    table.columns = std::vector<Column>(num_columns, Column{.label = "c"});
    table.Add({.cells = std::vector<Datum>(num_columns)});
    page.sections.push_back(
        {.id = "s", .title = "S", .short_title = "S", .question = "", .blocks = {table}});
    return RenderHtmlPage(page).find("id=\"table-k\" class=\"wide\"") != std::string::npos;
  };
  CHECK_FALSE(is_wide(8));
  CHECK(is_wide(9));
}

TEST_CASE("A text that holds numbers is sorted by its value", "[reports][html]") {
  Table table{.key = "t", .title = "T.", .note = ""};
  table.columns = {{.label = "Mixer", .kind = Column::Kind::kText},
                   {.label = "Tested on", .kind = Column::Kind::kText}};
  Datum length{.value = 1024, .text = "1,024 tokens"};
  Datum other{.value = {}, .text = "other"};
  table.rows = {{kNoMixer, {Datum{.value = {}, .text = "a"}, length}},
                {kNoMixer, {Datum{.value = {}, .text = "b"}, other}}};
  Page page;
  page.sections.push_back(
      {.id = "s", .title = "S", .short_title = "S", .question = "", .blocks = {table}});
  const std::string html = RenderHtmlPage(page);
  CHECK(html.find("<td class=\"t\" data-v=\"1024\">1,024 tokens</td>") != std::string::npos);
  CHECK(html.find("<td class=\"t\">other</td>") != std::string::npos);
}

TEST_CASE("The key of a heat map names what the map shows", "[reports][html]") {
  const auto page_of = [](std::vector<Datum> data) {
    Page page;
    const Heat heat{
        "", "", std::vector<std::string>(data.size(), "64"), {{"GLA", std::move(data)}}};
    page.sections.push_back({"heat", "", "", "", {HeatFigure{"", {}, {heat}}}});
    return RenderHtmlPage(page);
  };
  const auto has = [&](const std::vector<Datum>& data, const char* word) {
    return page_of(data).find(std::string(" ") + word + "</span>") != std::string::npos;
  };
  const Datum plain{.value = 0.5}, best{.value = 0.9, .is_chosen = true},
      lost{.value = {}, .state = CellState::kOom},
      planned{.value = {}, .state = CellState::kPlanned};
  CHECK_FALSE(has({plain, planned}, "chosen"));
  CHECK_FALSE(has({plain, planned}, "failed"));
  CHECK(has({plain, best}, "chosen"));
  CHECK_FALSE(has({plain, best}, "failed"));
  CHECK(has({plain, lost}, "failed"));
}

TEST_CASE("Names at line ends keep their order and their distance", "[reports][svg]") {
  const std::vector<double> places = SpreadApart({50, 10, 11, 12}, 13.5, 0, 100);
  CHECK(places[1] < places[2]);
  CHECK(places[2] < places[3]);
  CHECK(places[3] < places[0]);
  CHECK(places[2] - places[1] >= 13.5 - 1e-9);
  CHECK(places[3] - places[2] >= 13.5 - 1e-9);
  // More names than there is room for stay inside.
  const std::vector<double> full = SpreadApart(std::vector<double>(50, 20.0), 13.5, 0, 100);
  CHECK(*std::max_element(full.begin(), full.end()) <= 100 + 1e-9);
  CHECK(*std::min_element(full.begin(), full.end()) >= 0);
}

// The texts of a class in a drawing, with their places from above.
std::vector<std::pair<double, std::string>> TextsOf(const std::string& svg,
                                                    const std::string& name) {
  std::vector<std::pair<double, std::string>> texts;
  const std::string head = "<text class=\"" + name + "\"";
  for (std::size_t at = svg.find(head); at != svg.npos; at = svg.find(head, at + 1)) {
    const std::size_t y = svg.find(" y=\"", at) + 4;
    const std::size_t start = svg.find('>', at) + 1;
    texts.emplace_back(std::stod(svg.substr(y)), svg.substr(start, svg.find('<', start) - start));
  }
  return texts;
}

TEST_CASE("A low panel has the ticks for which it has room, and a long title on two lines",
          "[reports][svg]") {
  Panel panel{.title = "BaseConv + RESONA layer 2\n64 tokens, 4 pairs, d 128",
              .describe = {},
              .x = NameAxis({"a", "b"}, ""),
              .y = AccuracyAxis(true, 0.01)};
  panel.is_small = true;
  const std::string svg = RenderPanel(panel, {});
  std::vector<double> places;
  for (const auto& [y, text] : TextsOf(svg, "tick")) {
    if (text != "a" && text != "b") places.push_back(y);
  }
  CHECK(places.size() >= 4);
  CHECK(places.size() < panel.y.ticks.size());
  for (std::size_t i = 1; i < places.size(); ++i) CHECK(places[i] - places[i - 1] >= 12.9);
  std::string title;
  for (const auto& [y, text] : TextsOf(svg, "title")) title += text + " ";
  CHECK(title == "BaseConv + RESONA layer 2 64 tokens, 4 pairs, d 128 ");
}

TEST_CASE("Labels of lines that lie close stand on both sides of them", "[reports][svg]") {
  Panel panel{
      .title = {}, .describe = {}, .x = NameAxis({"a", "b"}, ""), .y = AccuracyAxis(false, 0)};
  panel.references = {{.y = 0.06, .label = "one"}, {.y = 0.05, .label = "two"}};
  const auto labels = TextsOf(RenderPanel(panel, {}), "note");
  REQUIRE(labels.size() == 2);
  CHECK(std::abs(labels[0].first - labels[1].first) >= 12);
}

TEST_CASE("Every run of a row is drawn or counted, and stands on its row", "[reports][svg]") {
  Panel panel{.title = {},
              .describe = {},
              .x = {.label = "steps", .scale = Axis::Scale::kLog, .low = 50, .high = 1000},
              .y = NameAxis({"a"}, ""),
              .has_rows = true,
              .has_never = true,
              .height = 88};
  panel.y.low = -0.6;
  panel.y.high = 0.6;
  const std::vector<MixerStyle> styles = {
      {.key = "gla", .label = "GLA", .family = "", .colour = "gla", .marker = "circle"}};
  const auto drawing_of = [&](int num_reached, int num_never) {
    Series series{.mixer = 0, .form = Series::Form::kMarks};
    for (int i = 0; i < num_reached; ++i) {
      series.marks.push_back({.x = 100, .y = 0, .note = "seed " + std::to_string(i)});
    }
    for (int i = 0; i < num_never; ++i) {
      series.marks.push_back({.x = 50, .y = 0, .failed = "never", .is_never = true});
    }
    panel.series = {series};
    return RenderPanel(panel, styles);
  };
  const auto count = [](const std::string& text, const std::string& part) {
    std::size_t num = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++num;
    return num;
  };
  const std::string few = drawing_of(3, 6);
  CHECK(count(few, "<circle ") == 3);
  CHECK(count(few, "class=\"fail\"") == 6);
  CHECK(few.find("×") == std::string::npos);
  const std::string many = drawing_of(7, 16);
  CHECK(count(many, "<circle ") == 1);
  CHECK(count(many, "class=\"fail\"") == 1);
  CHECK(many.find(">×7<") != std::string::npos);
  CHECK(many.find(">×16<") != std::string::npos);
  CHECK(many.find("seed 6") != std::string::npos);
  // "and 3 more", where a tooltip would be too long.
  CHECK(drawing_of(11, 0).find("and 3 more") != std::string::npos);
}

}  // namespace mixerbench::reports
