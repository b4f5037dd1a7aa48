// SPDX-License-Identifier: Apache-2.0
#include "reports/render/html_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <set>
#include <string_view>

#include "base/sha256.h"
#include "io/text.h"
#include "reports/render/link.h"
#include "reports/render/page_files.h"
#include "reports/render/panel_svg.h"
#include "reports/render/verdict_svg.h"

namespace mixerbench::reports {
namespace {

std::string Base64OfHex(const std::string& hex) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int num_bits = 0;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bits = (bits << 8) | static_cast<std::uint32_t>(std::stoul(hex.substr(i, 2), nullptr, 16));
    for (num_bits += 8; num_bits >= 6;) {
      num_bits -= 6;
      out += kDigits[(bits >> num_bits) & 63];
    }
  }
  if (num_bits > 0) out += kDigits[(bits << (6 - num_bits)) & 63];
  while (out.size() % 4 != 0) out += '=';
  return out;
}

std::string Hash(const std::string& text) {
  return "'sha256-" + Base64OfHex(Sha256Hex(text)) + "'";
}

// Escaped, with a number and its unit on one line.
std::string Text(std::string_view text) {
  std::string out = io::EscapeHtml(text);
  for (const std::string_view unit : {"%", "ms", "KiB", "MiB", "GiB"}) {
    for (std::size_t at = 0; (at = out.find(unit, at)) != out.npos; at += unit.size()) {
      const bool follows =
          at >= 2 && out[at - 1] == ' ' && out[at - 2] >= '0' && out[at - 2] <= '9';
      if (!follows) continue;
      out.replace(at - 1, 1, "\u00a0");
      at += 1;
    }
  }
  return out;
}

// With the hyphen of a rate, "4.64e-4", as one at which no line ends: heads wrap.
std::string Unbroken(std::string text) {
  for (std::size_t i = 1; i + 2 < text.size(); ++i) {
    const bool is_exponent = text[i - 1] >= '0' && text[i - 1] <= '9' && text[i] == 'e' &&
                             text[i + 1] == '-' && text[i + 2] >= '0' && text[i + 2] <= '9';
    if (is_exponent) text.replace(i + 1, 1, "\u2011");
  }
  return text;
}

// A table of more columns is printed in smaller type.
constexpr std::size_t kMaxOnPaper = 8;

// Lines stay lines in an attribute.
std::string NoteText(const std::string& note) { return io::EscapeHtmlLines(note, "&#10;"); }

std::string Small(const std::string& text) {
  return text.empty() ? "" : "<small>" + Text(text) + "</small>";
}

std::string RenderFacts(const std::vector<Fact>& facts, std::string_view look) {
  std::string out = fmt::format("<dl class=\"{}\">", look);
  for (const Fact& fact : facts) {
    out += "<div><dt>" + Text(fact.term) + "</dt><dd>" + Text(fact.text) + Small(fact.sub) +
           "</dd></div>";
  }
  return out + "</dl>\n";
}

std::string RenderSentences(const std::vector<Sentence>& list, std::string_view look) {
  std::string out = fmt::format("<ul class=\"{}\">", look);
  for (const Sentence& sentence : list) {
    out += "<li><b>" + Text(sentence.lead) + "</b> " + Text(sentence.text) + "</li>";
  }
  return out + "</ul>\n";
}

bool IsQuiet(CellState state) {
  return state == CellState::kPlanned || state == CellState::kInterrupted ||
         state == CellState::kSkipped || state == CellState::kUnsupported;
}

class Renderer {
 public:
  explicit Renderer(const Page& page) : page_(page) {}

  std::string Render() {
    std::string body;
    for (const Section& section : page_.sections) body += RenderSection(section);
    const std::string style = std::string(kPageStyle) + HighlightRules();
    const std::string script(kPageScript);
    return "<!DOCTYPE html>\n<html lang=\"en\" class=\"no-script\">\n<head>\n<meta "
           "charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
           "content=\"default-src 'none'; base-uri 'none'; form-action 'none'; style-src " +
           Hash(style) + "; script-src " + Hash(script) +
           "\">\n<meta name=\"viewport\" content=\"width=device-width, "
           "initial-scale=1\">\n<title>" +
           io::EscapeHtml(page_.title) + " – " + io::EscapeHtml(page_.eyebrow) +
           "</title>\n<style>" + style +
           "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the "
           "results</a>\n" +
           Masthead() + Contents() + "<main id=\"main\">\n" + Summary() + body +
           "</main>\n<footer>" + Text(page_.footer) + "</footer>\n<script>" + script +
           "</script>\n</body>\n</html>\n";
  }

 private:
  // Brings out the mixer that the script marks on the root.
  std::string HighlightRules() const {
    std::string rules;
    for (std::size_t i = 0; i < page_.mixers.size(); ++i) {
      rules += fmt::format(
          "[data-hl=\"m{0}\"] svg [data-m]:not([data-m=\"m{0}\"]) {{ opacity: .14; }} "
          "[data-hl=\"m{0}\"] tr[data-m=\"m{0}\"] > * {{ background-color: var(--panel); }}\n",
          i);
    }
    return rules;
  }

  // "not_comparable" as people read it.
  static std::string VerdictWord(std::string verdict) {
    std::replace(verdict.begin(), verdict.end(), '_', ' ');
    return Text(verdict);
  }

  static std::string RenderOutcome(const Outcome& outcome) {
    std::string out = "<div class=\"banner " + outcome.look + "\">" +
                      RenderSign(outcome.look, /*is_large=*/true) + "<div><div class=\"word\">" +
                      Text(outcome.word) + "</div><p>" + Text(outcome.text) + "</p></div></div>\n";
    out += "<ul class=\"counts\">";
    for (const auto& [verdict, count] : outcome.counts) {
      out += fmt::format("<li class=\"{}\"><span class=\"verdict\">{}{}</span> {}</li>", verdict,
                         RenderSign(verdict), VerdictWord(verdict), count);
    }
    return out + "</ul>\n";
  }

  std::string Masthead() const {
    std::string banner = page_.outcome ? RenderOutcome(*page_.outcome) : "";
    for (const Sentence& sentence : page_.banner) {
      banner += "<div class=\"banner inconclusive\"><span class=\"word\">" + Text(sentence.lead) +
                "</span><p>" + Text(sentence.text) + "</p></div>\n";
    }
    return "<header class=\"masthead\">\n<p class=\"eyebrow\">" + Text(page_.eyebrow) +
           "</p>\n<h1>" + Text(page_.title) + "</h1>\n" +
           (page_.lead.empty() ? "" : "<p class=\"lead\">" + Text(page_.lead) + "</p>\n") + banner +
           RenderFacts(page_.facts, "facts") + "</header>\n";
  }

  std::string Contents() const {
    std::string links = HasSummary() ? "<li><a href=\"#summary\">Summary</a></li>" : "";
    for (std::size_t i = 0; i < page_.sections.size(); ++i) {
      links += fmt::format("<li><a href=\"#{}\">{} {}</a></li>", page_.sections[i].id, i + 1,
                           Text(page_.sections[i].short_title));
    }
    return "<nav aria-label=\"Contents\"><div><ol>" + links +
           "</ol><button id=\"theme\" type=\"button\">Theme: auto</button></div></nav>\n";
  }

  bool HasSummary() const { return !page_.glance.empty() || !page_.care.empty(); }

  std::string Summary() const {
    if (!HasSummary()) return "";
    std::string out = "<section id=\"summary\"><h2 class=\"skip\">Summary</h2><div class=\"two\">";
    if (!page_.glance.empty()) {
      out += "<div><h3>At a glance</h3>" + RenderSentences(page_.glance, "plain") + "</div>";
    }
    if (!page_.care.empty()) {
      out += "<div><h3>Read with care</h3>" + RenderSentences(page_.care, "plain care") + "</div>";
    }
    return out + "</div></section>\n";
  }

  std::string RenderSection(const Section& section) {
    ++index_;
    std::string out = fmt::format("<section id=\"{}\"><h2><span class=\"index\">{}</span>{}</h2>",
                                  section.id, index_, Text(section.title));
    if (!section.question.empty()) {
      out += "<p class=\"question\">" + Text(section.question) + "</p>";
    }
    for (const Block& block : section.blocks) {
      out += std::visit([&](const auto& item) { return RenderBlock(item); }, block);
    }
    return out + "</section>\n";
  }

  std::string RenderBlock(const Facts& facts) { return RenderFacts(facts.facts, "setup"); }

  std::string RenderBlock(const Sentences& sentences) {
    return "<h3>" + Text(sentences.title) + "</h3>" +
           (sentences.list.empty() ? "" : RenderSentences(sentences.list, "plain"));
  }

  std::string RenderBlock(const Code& code) {
    const std::string id = fmt::format("code-{}", ++num_codes_);
    return "<details><summary>" + Text(code.title) +
           " <small>exact configuration</small></summary><p>" + Text(code.note) +
           " <button type=\"button\" data-copy=\"" + id + "\">Copy</button></p><pre id=\"" + id +
           "\">" + io::EscapeHtmlLines(code.text, "\n") + "</pre></details>\n";
  }

  std::string RenderBlock(const Table& table) {
    const std::string html = RenderTable(table);
    if (!table.is_long) return html;
    const std::string id = "table-" + table.key;
    const std::string left_out = LeftOutText(table);
    return "<details><summary>" + Text(table.summary) + " <small>" +
           Text(left_out.empty() ? table.elsewhere : left_out) +
           "</small></summary><div class=\"filter\"><label "
           "for=\"f-" +
           table.key + "\">Filter</label><input id=\"f-" + table.key + "\" data-filter=\"" + id +
           "\"><output>" + std::to_string(table.rows.size()) + " rows</output></div>" + html +
           "</details>\n";
  }

  std::string MixerName(int mixer, const std::string& text) const {
    if (mixer == kNoMixer) return Text(text);
    return RenderSwatch(page_.mixers[static_cast<std::size_t>(mixer)]) + Text(text);
  }

  static std::string HeaderClass(const Column& column) {
    if (column.kind == Column::Kind::kVerdict) return " class=\"t word\"";
    return column.kind == Column::Kind::kText ? " class=\"t\"" : "";
  }

  std::string HeaderRow(const Table& table) const {
    std::string groups;
    const bool has_groups = std::any_of(table.columns.begin(), table.columns.end(),
                                        [](const Column& column) { return !column.group.empty(); });
    if (has_groups) {
      for (std::size_t i = 0; i < table.columns.size();) {
        std::size_t span = 1;
        const std::string& group = table.columns[i].group;
        while (i + span < table.columns.size() && table.columns[i + span].group == group) ++span;
        groups += group.empty() ? fmt::format("<td colspan=\"{}\"></td>", span)
                                : fmt::format(
                                      "<th class=\"group\" scope=\"colgroup\" "
                                      "colspan=\"{}\"><span>{}</span></th>",
                                      span, Text(Unbroken(group)));
        i += span;
      }
      groups = "<tr class=\"groups\">" + groups + "</tr>";
    }
    std::string head;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const Column& column = table.columns[i];
      const std::string label = Text(Unbroken(column.label)) + Small(Unbroken(column.unit));
      if (column.kind == Column::Kind::kPlot) {
        head += "<th scope=\"col\" class=\"t\">" + label +
                (column.axis ? RenderIntervalAxis(*column.axis) : "") + "</th>";
        continue;
      }
      head += fmt::format(
          "<th scope=\"col\"{} data-col=\"{}\"{}{}><button type=\"button\">{}</button></th>",
          HeaderClass(column), i, column.kind == Column::Kind::kNumber ? " data-number" : "",
          column.is_down_first ? " data-first=\"down\"" : "", label);
    }
    return "<thead>" + groups + "<tr>" + head + "</tr></thead>";
  }

  // `is_labelled`: with the name of its column, which a phone shows before it.
  std::string Cell(const Column& column, const Datum& datum, bool is_labelled) const {
    std::string look = column.kind == Column::Kind::kNumber ? "" : "t";
    const auto add = [&](std::string_view word) {
      look += (look.empty() ? "" : " ") + std::string(word);
    };
    if (column.wraps) add("wrap");
    if (IsFailure(datum.state)) add("fail");
    if (IsQuiet(datum.state)) add("idle");
    if (datum.text == kNone) add("none");
    if (datum.is_best) add("best");
    if (column.kind == Column::Kind::kVerdict) add("word judged " + datum.verdict);
    std::string out = look.empty() ? "<td" : "<td class=\"" + look + "\"";
    const bool is_sorted =
        column.kind == Column::Kind::kNumber || column.kind == Column::Kind::kText;
    if (is_sorted && datum.value) {
      out += fmt::format(" data-v=\"{:.6g}\"", *datum.value);
    }
    if (is_labelled && column.kind != Column::Kind::kVerdict) {
      out += " data-label=\"" + io::EscapeHtml(column.label) + "\"";
    }
    if (!datum.note.empty()) out += " data-tip=\"" + NoteText(datum.note) + "\"";
    out += ">";
    if (datum.rank) {
      out += RenderRank(*datum.rank);
    } else if (datum.plot && column.axis) {
      out += RenderInterval(*datum.plot, *column.axis, datum.verdict);
    } else {
      const std::string text =
          datum.is_code ? "<code>" + Text(datum.text) + "</code>" : Text(datum.text);
      const std::string url = RelativeUrl(datum.link);
      out += url.empty() ? text : "<a href=\"" + url + "\">" + text + "</a>";
    }
    if (datum.share) {
      out += fmt::format(
          "<svg class=\"bar\" viewBox=\"0 0 64 8\" aria-hidden=\"true\"><rect "
          "width=\"{:.1f}\" height=\"8\" rx=\"1.5\"/></svg>",
          64 * *datum.share);
    }
    return out + Small(datum.sub) + "</td>";
  }

  static std::string TableClass(const Table& table) {
    if (table.is_stacked) return " class=\"stack\"";
    const bool judges = std::any_of(table.columns.begin(), table.columns.end(),
                                    [](const Column& column) { return column.axis.has_value(); });
    if (judges) return " class=\"judging\"";
    return table.columns.size() > kMaxOnPaper ? " class=\"wide\"" : "";
  }

  std::string RenderTable(const Table& table) const {
    const std::string id = "table-" + table.key;
    std::string out = "<div class=\"table\">";
    if (!table.title.empty()) {
      out += "<p class=\"caption\" id=\"" + id + "-caption\"><b>" + Text(table.title) + "</b> " +
             Text(NoteOf(table)) + "</p>";
    }
    out +=
        fmt::format("<div class=\"scroll{}\" tabindex=\"0\" role=\"group\" {}><table id=\"{}\"{}>",
                    table.is_long ? " tall" : "",
                    table.title.empty() ? "aria-label=\"" + io::EscapeHtml(table.summary) + "\""
                                        : "aria-labelledby=\"" + id + "-caption\"",
                    id, TableClass(table)) +
        HeaderRow(table) + "<tbody>\n";
    for (const Row& row : table.rows) {
      out += row.mixer == kNoMixer
                 ? std::string("<tr>")
                 : fmt::format("<tr class=\"c-{}\" data-m=\"m{}\">",
                               page_.mixers[static_cast<std::size_t>(row.mixer)].colour, row.mixer);
      const std::string& note = row.cells[0].note;
      out += "<th scope=\"row\"" + (note.empty() ? "" : " title=\"" + NoteText(note) + "\"") + ">" +
             RenderSign(row.cells[0].verdict) + MixerName(row.mixer, row.cells[0].text) +
             Small(row.cells[0].sub) + "</th>";
      for (std::size_t i = 1; i < row.cells.size(); ++i)
        out += Cell(table.columns[i], row.cells[i], table.is_stacked);
      out += "</tr>\n";
    }
    out += "</tbody>";
    if (!table.foot.empty()) {
      out += "<tfoot>";
      for (const Row& row : table.foot) {
        out += "<tr><th scope=\"row\">" + Text(row.cells[0].text) + "</th>";
        for (std::size_t i = 1; i < row.cells.size(); ++i) {
          out += "<td>" + Text(row.cells[i].text) + "</td>";
        }
        out += "</tr>";
      }
      out += "</tfoot>";
    }
    return out + "</table></div></div>\n";
  }

  std::string OpenFigure(const std::string& title, const std::vector<std::string>& caption) {
    std::string out = fmt::format("<figure id=\"fig-{}\"><figcaption><b>", ++num_figures_) +
                      Text(title) + "</b> ";
    for (const std::string& line : caption) out += "<p>" + Text(line) + "</p> ";
    return out + "</figcaption><div>";
  }

  std::string RenderBlock(const Figure& figure) {
    std::string out = OpenFigure(figure.title, figure.caption);
    if (!figure.legend.empty()) {
      out += "<ul class=\"legend\">";
      for (const int mixer : figure.legend) {
        out += fmt::format("<li data-m=\"m{}\">{}</li>", mixer,
                           MixerName(mixer, page_.mixers[static_cast<std::size_t>(mixer)].label));
      }
      out += "</ul>";
    }
    const bool is_small = std::any_of(figure.panels.begin(), figure.panels.end(),
                                      [](const Panel& panel) { return panel.is_small; });
    out += is_small ? "<div class=\"panels small\">\n" : "<div class=\"panels\">\n";
    for (const Panel& panel : figure.panels) out += RenderPanel(panel, page_.mixers);
    return out + "</div></div></figure>\n";
  }

  static bool HasFailed(const Datum& datum) { return !datum.value && IsFailure(datum.state); }

  static bool HasAny(const HeatFigure& figure, const auto& is_it) {
    for (const Heat& heat : figure.heats) {
      for (const auto& [name, data] : heat.rows) {
        if (std::any_of(data.begin(), data.end(), is_it)) return true;
      }
    }
    return false;
  }

  // Of what the figure shows.
  static std::string HeatKey(const HeatFigure& figure) {
    constexpr std::array<const char*, 9> kSteps = {"&lt;10", "10", "25", "50",   "75",
                                                   "90",     "95", "99", "≥99.9"};
    std::string out = "<div class=\"key\" aria-hidden=\"true\"><span>accuracy, %</span><span>";
    for (std::size_t i = 0; i < kSteps.size(); ++i) {
      out += fmt::format("<span class=\"step q{}\">{}</span>", i, kSteps[i]);
    }
    out += "</span>";
    if (HasAny(figure, [](const Datum& datum) { return datum.is_chosen; })) {
      out += "<span><span class=\"step chosen\">99.9</span> chosen</span>";
    }
    if (HasAny(figure, HasFailed)) {
      out += "<span><span class=\"step cell-fail\">oom</span> failed</span>";
    }
    return out + "</div>";
  }

  static int HeatStep(double share) {
    constexpr std::array<double, 8> kEdges = {.1, .25, .5, .75, .9, .95, .99, .999};
    int step = 0;
    for (const double edge : kEdges) step += share >= edge ? 1 : 0;
    return step;
  }

  static std::string RenderHeat(const Heat& heat) {
    // A wide one takes the whole row.
    std::string out = std::string("<div class=\"scroll") + (heat.columns.size() > 6 ? " all" : "") +
                      "\" tabindex=\"0\" role=\"group\" aria-label=\"" +
                      io::EscapeHtml(heat.title.empty() ? heat.corner : heat.title) +
                      "\"><table class=\"heat\">";
    if (!heat.title.empty()) out += "<caption>" + Text(heat.title) + "</caption>";
    out += "<thead><tr><th scope=\"col\">" + Text(heat.corner) + "</th>";
    for (const std::string& column : heat.columns) {
      out += "<th scope=\"col\">" + Text(column) + "</th>";
    }
    out += "</tr></thead><tbody>";
    for (const auto& [name, data] : heat.rows) {
      out += "<tr><th scope=\"row\">" + Text(name) + "</th>";
      for (const Datum& datum : data) {
        std::string look = "cell-none";
        if (datum.value) {
          look = fmt::format("q{}", HeatStep(*datum.value));
        } else if (HasFailed(datum)) {
          look = "cell-fail";
        }
        if (datum.is_chosen) look += " chosen";
        out += "<td class=\"" + look + "\"" +
               (datum.note.empty() ? "" : " data-tip=\"" + NoteText(datum.note) + "\"") + ">" +
               Text(datum.text) + "</td>";
      }
      out += "</tr>";
    }
    return out + "</tbody></table></div>\n";
  }

  std::string RenderBlock(const HeatFigure& figure) {
    std::string out =
        OpenFigure(figure.title, figure.caption) + HeatKey(figure) + "<div class=\"heats\">";
    for (const Heat& heat : figure.heats) out += RenderHeat(heat);
    return out + "</div></div></figure>\n";
  }

  const Page& page_;
  int index_ = 0;
  int num_figures_ = 0;
  int num_codes_ = 0;
};

}  // namespace

std::string RenderHtmlPage(const Page& page) { return Renderer(page).Render(); }

}  // namespace mixerbench::reports
