// SPDX-License-Identifier: Apache-2.0
#include "reports/render/markdown_page.h"

#include <fmt/format.h>

#include "io/text.h"
#include "reports/render/link.h"

namespace mixerbench::reports {
namespace {

std::string SentenceList(const std::vector<Sentence>& list) {
  std::string out;
  for (const Sentence& sentence : list) {
    out += "- **" + io::EscapeMarkdown(sentence.lead) + "** " + io::EscapeMarkdown(sentence.text) +
           "\n";
  }
  return out.empty() ? "" : out + "\n";
}

std::string FactList(const std::vector<Fact>& facts) {
  std::string out;
  for (const Fact& fact : facts) {
    out += "- " + io::EscapeMarkdown(fact.term) + ": " + io::EscapeMarkdown(fact.text) +
           (fact.sub.empty() ? "" : " (" + io::EscapeMarkdown(fact.sub) + ")") + "\n";
  }
  return out.empty() ? "" : out + "\n";
}

std::string CellText(const Datum& datum) {
  std::string text = io::EscapeMarkdown(datum.text);
  if (datum.is_best) text = "**" + text + "**";
  if (const std::string url = RelativeUrl(datum.link); !url.empty()) {
    text = "[" + text + "](" + url + ")";
  }
  return text + (datum.sub.empty() ? "" : " (" + io::EscapeMarkdown(datum.sub) + ")");
}

std::string Line(const std::vector<std::string>& fields) {
  std::string line = "|";
  for (const std::string& field : fields) line += " " + field + " |";
  return line + "\n";
}

std::string RenderBlock(const Table& table) {
  if (table.is_long && table.title.empty()) return "";  // of every cell: CSV and JSON have them
  std::string out;
  if (!table.title.empty()) {
    out +=
        "**" + io::EscapeMarkdown(table.title) + "** " + io::EscapeMarkdown(NoteOf(table)) + "\n\n";
  }
  std::vector<std::string> head;
  std::vector<std::string> rule;
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    if (column.kind == Column::Kind::kPlot) continue;
    shown.push_back(i);
    std::string label = column.group.empty() ? column.label : column.group + ", " + column.label;
    if (!column.unit.empty()) label += " (" + column.unit + ")";
    head.push_back(io::EscapeMarkdown(label));
    rule.push_back(column.kind == Column::Kind::kNumber ? "--:" : ":--");
  }
  out += Line(head) + Line(rule);
  for (const auto* rows : {&table.rows, &table.foot}) {
    for (const Row& row : *rows) {
      std::vector<std::string> fields;
      for (const std::size_t i : shown) fields.push_back(CellText(row.cells[i]));
      out += Line(fields);
    }
  }
  out += "\n";
  for (const std::string& remark : table.remarks) out += "- " + io::EscapeMarkdown(remark) + "\n";
  return table.remarks.empty() ? out : out + "\n";
}

std::string RenderBlock(const HeatFigure& figure) {
  std::string out = "**" + io::EscapeMarkdown(figure.title) + "** Percent.";
  for (const std::string& line : figure.caption) out += " " + io::EscapeMarkdown(line);
  out += "\n\n";
  for (const Heat& heat : figure.heats) {
    if (!heat.title.empty()) out += io::EscapeMarkdown(heat.title) + "\n\n";
    std::vector<std::string> head = {io::EscapeMarkdown(heat.corner)};
    std::vector<std::string> rule = {":--"};
    for (const std::string& column : heat.columns) {
      head.push_back(io::EscapeMarkdown(column));
      rule.emplace_back("--:");
    }
    out += Line(head) + Line(rule);
    for (const auto& [name, data] : heat.rows) {
      std::vector<std::string> fields = {io::EscapeMarkdown(name)};
      for (const Datum& datum : data) {
        fields.push_back(datum.is_chosen ? "**" + io::EscapeMarkdown(datum.text) + "**"
                                         : io::EscapeMarkdown(datum.text));
      }
      out += Line(fields);
    }
    out += "\n";
  }
  return out;
}

std::string RenderBlock(const Facts& facts) { return FactList(facts.facts); }

std::string RenderBlock(const Sentences& sentences) {
  return "### " + io::EscapeMarkdown(sentences.title) + "\n\n" + SentenceList(sentences.list);
}

std::string RenderBlock(const Figure&) { return ""; }

std::string RenderBlock(const Code&) { return ""; }  // stands in report.json

}  // namespace

std::string RenderMarkdownPage(const Page& page) {
  std::string out = "# " + io::EscapeMarkdown(page.title) + "\n\n";
  if (!page.lead.empty()) out += io::EscapeMarkdown(page.lead) + "\n\n";
  for (const Sentence& sentence : page.banner) {
    out += "**" + io::EscapeMarkdown(sentence.lead + " " + sentence.text) + "**\n\n";
  }
  out += FactList(page.facts);
  if (!page.glance.empty()) out += "## At a glance\n\n" + SentenceList(page.glance);
  if (!page.care.empty()) out += "## Read with care\n\n" + SentenceList(page.care);
  for (const Section& section : page.sections) {
    std::string blocks;
    for (const Block& block : section.blocks) {
      blocks += std::visit([](const auto& item) { return RenderBlock(item); }, block);
    }
    if (blocks.empty()) continue;
    out += "## " + io::EscapeMarkdown(section.title) + "\n\n" + blocks;
  }
  return out;
}

}  // namespace mixerbench::reports
