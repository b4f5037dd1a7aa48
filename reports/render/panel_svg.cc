// SPDX-License-Identifier: Apache-2.0
#include "reports/render/panel_svg.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <string_view>
#include <utility>

#include "io/text.h"
#include "reports/render/label_places.h"
#include "reports/render/row_places.h"

namespace mixerbench::reports {
namespace {

constexpr double kWidth = 372;
constexpr double kSmallWidth = 184;
constexpr double kLineGap = 13.5;  // between names
constexpr double kTickGap = 13;    // between labels of the y axis, which are one line each
constexpr double kTitleLine = 15;
// Names are 11.5 px and bold: as wide as plain text of this size.
constexpr double kNameSize = 13;

// One decimal, no "-0", no ".0".
std::string N(double x) {
  std::string text = fmt::format("{:.1f}", x);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

// Advance widths of Helvetica in 1/1000 em, enough to place names.
double WidthOf(std::string_view text, double size) {
  double width = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) continue;  // inside a character
    if (std::string_view("ijl'|").find(c) != std::string_view::npos) {
      width += 222;
    } else if (std::string_view("ft .,:;/!I[]()-r").find(c) != std::string_view::npos) {
      width += 300;
    } else if (std::string_view("csvxyzkJ").find(c) != std::string_view::npos) {
      width += 500;
    } else if ((c >= 'a' && c <= 'z' && c != 'm' && c != 'w') || (c >= '0' && c <= '9')) {
      width += 556;
    } else if (c == 'm' || c == 'M' || c == 'W' || c == '%') {
      width += 870;
    } else {
      width += 700;
    }
  }
  return width * size / 1000 * 1.04;
}

// Cut to the room there is.
std::string Fitted(const std::string& text, double room, double size) {
  if (WidthOf(text, size) <= room) return text;
  std::string cut = text;
  while (!cut.empty() && WidthOf(cut + "…", size) > room) {
    do {
      cut.pop_back();
    } while (!cut.empty() && (static_cast<unsigned char>(cut.back()) & 0xC0) == 0x80);
    if (!cut.empty() && static_cast<unsigned char>(cut.back()) >= 0xC0) cut.pop_back();
  }
  return cut + "…";
}

// The lines of a title: its own, and where one has no room a break at the last space before it.
std::vector<std::string> TitleLines(const std::string& title, double room, double size) {
  std::vector<std::string> lines;
  if (title.empty()) return lines;
  for (const std::string_view whole : io::LinesOf(title)) {
    std::string line(whole);
    if (WidthOf(line, size) > room) {
      std::size_t space = line.rfind(' ');
      while (space != line.npos && WidthOf(line.substr(0, space), size) > room) {
        space = space == 0 ? line.npos : line.rfind(' ', space - 1);
      }
      if (space != line.npos) {
        lines.push_back(line.substr(0, space));
        line.erase(0, space + 1);
      }
    }
    lines.push_back(Fitted(line, room, size));
  }
  return lines;
}

// log10 of the odds; 1 has a place of its own above 99.99 %.
double Odds(double share) {
  constexpr double kTop = 4.95;
  if (share >= 1) return kTop;
  return std::min(kTop - 0.25, std::log10(std::max(share, 1e-6) / std::max(1 - share, 1e-9)));
}

double Transformed(const Axis& axis, double value) {
  switch (axis.scale) {
    case Axis::Scale::kLog:
      return std::log(std::max(value, 1e-300));
    case Axis::Scale::kOdds:
      return Odds(value);
    case Axis::Scale::kLinear:
      break;
  }
  return value;
}

std::string Marker(std::string_view shape, double x, double y, double r) {
  if (shape == "circle") {
    return fmt::format(R"(<circle cx="{}" cy="{}" r="{}"/>)", N(x), N(y), N(r));
  }
  using Points = std::vector<std::pair<double, double>>;
  static const std::vector<std::pair<std::string_view, Points>> kShapes = {
      {"square", {{-.9, -.9}, {.9, -.9}, {.9, .9}, {-.9, .9}}},
      {"diamond", {{0, -1.25}, {1.25, 0}, {0, 1.25}, {-1.25, 0}}},
      {"up", {{0, -1.2}, {1.15, .85}, {-1.15, .85}}},
      {"down", {{0, 1.2}, {1.15, -.85}, {-1.15, -.85}}},
      {"pentagon", {{0, -1.2}, {1.15, -.35}, {.7, 1}, {-.7, 1}, {-1.15, -.35}}},
      {"bar", {{-1.2, -.55}, {1.2, -.55}, {1.2, .55}, {-1.2, .55}}},
      {"plus",
       {{-.4, -1.2},
        {.4, -1.2},
        {.4, -.4},
        {1.2, -.4},
        {1.2, .4},
        {.4, .4},
        {.4, 1.2},
        {-.4, 1.2},
        {-.4, .4},
        {-1.2, .4},
        {-1.2, -.4},
        {-.4, -.4}}}};
  std::string path;
  for (const auto& [name, points] : kShapes) {
    if (name != shape) continue;
    for (const auto& [a, b] : points) {
      path += fmt::format("{}{} {}", path.empty() ? "M" : "L", N(x + a * r), N(y + b * r));
    }
  }
  return fmt::format(R"(<path d="{}Z"/>)", path);
}

std::string Cross(double x, double y, double r = 4) {
  return fmt::format(R"(<path class="fail" d="M{0} {1}L{2} {3}M{0} {3}L{2} {1}"/>)", N(x - r),
                     N(y - r), N(x + r), N(y + r));
}

using Pixels = std::vector<std::pair<double, double>>;

// A path without the points that lie on the line between their neighbours.
std::string Path(const Pixels& points) {
  constexpr double kTolerance = 0.35;
  std::string path;
  std::pair<double, double> last;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i > 0 && i + 1 < points.size()) {
      const auto [x0, y0] = last;
      const auto [x1, y1] = points[i];
      const auto [x2, y2] = points[i + 1];
      const double length = std::max(1e-9, std::hypot(x2 - x0, y2 - y0));
      const double off = std::abs((x2 - x0) * (y0 - y1) - (x0 - x1) * (y2 - y0)) / length;
      if (off <= kTolerance) continue;
    }
    last = points[i];
    path += fmt::format("{}{} {}", path.empty() ? "M" : "L", N(last.first), N(last.second));
  }
  return path;
}

std::string Title(const std::string& note) {
  if (note.empty()) return "";
  return "<title>" + io::EscapeHtmlLines(note, "\n") + "</title>";
}

class Drawing {
 public:
  Drawing(const Panel& panel, const std::vector<MixerStyle>& mixers)
      : panel_(panel), mixers_(mixers) {
    width_ = panel.is_small ? kSmallWidth : kWidth;
    std::size_t lines = 1;
    double widest = 0;
    for (const Tick& tick : panel.x.ticks) lines = std::max(lines, io::LinesOf(tick.text).size());
    for (const Tick& tick : panel.y.ticks) widest = std::max(widest, WidthOf(tick.text, 11.5));
    lines_ = Crowded() ? 1 : lines;
    double right = panel.is_small ? 8 : 14;
    if (panel.names == Panel::Names::kEnds) {
      double name = 0;
      for (const Series& series : panel.series) {
        if (series.has_name) name = std::max(name, WidthOf(StyleOf(series).label, kNameSize));
      }
      right = std::clamp(name + 22, 40.0, 150.0);
    }
    if (panel.has_never) right = 72;
    const double left =
        panel.has_rows ? std::clamp(widest + 14, 60.0, 150.0) : std::clamp(widest + 10, 34.0, 74.0);
    const bool has_unit = !panel.y.label.empty() && !panel.is_small;
    top_ = has_unit && !panel.title.empty() ? 40 : panel.has_never ? 34 : 24;
    const double bottom =
        7 + 13 * static_cast<double>(lines_) + (panel.x.label.empty() || panel.is_small ? 0 : 15);
    height_ = panel.height > 0 ? panel.height : panel.is_small ? 150 : 252;
    // Titles are bold and fonts differ: room is left, so that none runs into its neighbour.
    title_ = TitleLines(panel.title, width_ - 4, panel.is_small ? 14 : 14.5);
    if (title_.size() > 1) {
      const double more = kTitleLine * static_cast<double>(title_.size() - 1);
      top_ += more;
      height_ += more;
    }
    left_ = left;
    right_ = width_ - right;
    bottom_ = height_ - bottom;
  }

  std::string Render() {
    Frame();
    for (const Shade& shade : panel_.shades) Draw(shade);
    for (const auto& marks : panel_.context) {
      front_ += fmt::format(R"(<path class="context" d="{}"/>)", Path(PixelsOf(marks)));
    }
    for (const Reference& reference : panel_.references) Draw(reference);
    for (const Series& series : panel_.series) Draw(series);
    if (panel_.names == Panel::Names::kEnds) NameEnds();
    if (panel_.names == Panel::Names::kNear) NameNear();
    return fmt::format(R"(<svg class="panel" viewBox="0 0 {} {}" role="img" aria-label="{}">)",
                       N(width_), N(height_),
                       io::EscapeHtml(panel_.describe.empty() ? panel_.title : panel_.describe)) +
           shades_ + back_ + front_ + notes_ + "</svg>\n";
  }

 private:
  const MixerStyle& StyleOf(const Series& series) const {
    return mixers_[static_cast<std::size_t>(series.mixer)];
  }

  double X(double value) const {
    const double low = Transformed(panel_.x, panel_.x.low);
    const double high = Transformed(panel_.x, panel_.x.high);
    const double share = high > low ? (Transformed(panel_.x, value) - low) / (high - low) : 0.5;
    return left_ + std::clamp(share, 0.0, 1.0) * (right_ - left_);
  }

  double Y(double value) const {
    const double low = Transformed(panel_.y, panel_.y.low);
    const double high = Transformed(panel_.y, panel_.y.high);
    const double share = high > low ? (Transformed(panel_.y, value) - low) / (high - low) : 0.5;
    return bottom_ - std::clamp(share, 0.0, 1.0) * (bottom_ - top_);
  }

  // Labels of the x axis that would touch: one line each, and only every second or third.
  bool Crowded() const { return panel_.x.ticks.size() > (panel_.is_small ? 3U : 5U); }

  // Ticks of the y axis without those that would touch the next higher one: on the log-odds axis
  // the highest tell most.
  std::vector<Tick> FreeTicks() const {
    if (panel_.has_rows) return panel_.y.ticks;
    std::vector<Tick> free;
    for (auto tick = panel_.y.ticks.rbegin(); tick != panel_.y.ticks.rend(); ++tick) {
      if (free.empty() || Y(tick->at) - Y(free.back().at) >= kTickGap) free.push_back(*tick);
    }
    return free;
  }

  void Frame() {
    for (const Tick& tick : FreeTicks()) {
      const double y = Y(tick.at);
      const double to = panel_.has_never ? width_ : right_;
      back_ += fmt::format(R"(<path class="grid" d="M{} {}H{}"/>)", N(left_), N(y), N(to));
      if (panel_.has_rows) {
        back_ += fmt::format(R"(<text class="row" x="0" y="{}">{}</text>)", N(y + 4),
                             io::EscapeHtml(Fitted(tick.text, left_ - 8, 12)));
      } else {
        back_ += fmt::format(R"(<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>)",
                             N(left_ - 6), N(y + 3.8), io::EscapeHtml(tick.text));
      }
    }
    const bool is_crowded = Crowded();
    double free_from = -1e9;
    for (const Tick& tick : panel_.x.ticks) {
      const double x = X(tick.at);
      if (panel_.has_rows || panel_.x.scale == Axis::Scale::kLog) {
        back_ += fmt::format(R"(<path class="grid" d="M{} {}V{}"/>)", N(x), N(top_), N(bottom_));
      }
      std::string text = tick.text;
      if (is_crowded) text = text.substr(0, text.find_first_of('\n'));
      if (is_crowded && text.ends_with(" tokens")) text.resize(text.size() - 7);
      const auto lines = io::LinesOf(text);
      double wide = 0;
      for (const std::string_view line : lines) wide = std::max(wide, WidthOf(line, 11.5));
      if (x - wide / 2 < free_from) continue;
      free_from = x + wide / 2 + 4;
      for (std::size_t line = 0; line < lines.size(); ++line) {
        back_ += fmt::format(R"(<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>)",
                             N(std::min(x, width_ - wide / 2)),
                             N(bottom_ + 15 + 13 * static_cast<double>(line)),
                             io::EscapeHtml(lines[line]));
      }
    }
    back_ += fmt::format(R"(<path class="axis" d="M{} {}H{}"/>)", N(left_), N(bottom_), N(right_));
    for (std::size_t i = 0; i < title_.size(); ++i) {
      back_ += fmt::format(R"(<text class="title" x="0" y="{}">{}</text>)",
                           N(12 + kTitleLine * static_cast<double>(i)), io::EscapeHtml(title_[i]));
    }
    if (panel_.is_small) return;
    if (!panel_.y.label.empty() && !panel_.has_rows) {
      back_ +=
          fmt::format(R"(<text class="unit" x="0" y="{}">{}</text>)",
                      N(panel_.title.empty() ? 10 : top_ - 10), io::EscapeHtml(panel_.y.label));
    }
    if (!panel_.x.label.empty()) {
      back_ += fmt::format(R"(<text class="unit" x="{}" y="{}" text-anchor="end">{}</text>)",
                           N(right_), N(height_ - 3), io::EscapeHtml(panel_.x.label));
    }
    if (panel_.has_never) {
      const double from = right_ + 10;
      shades_ += fmt::format(R"(<rect class="shade" x="{}" y="{}" width="{}" height="{}"/>)",
                             N(from), N(top_), N(width_ - from), N(bottom_ - top_));
      notes_ += fmt::format(R"(<text class="note" x="{}" y="{}" text-anchor="middle">never</text>)",
                            N((from + width_) / 2), N(top_ - 5));
    }
  }

  void Draw(const Shade& shade) {
    const double x0 = shade.x0 ? X(*shade.x0) : left_;
    const double y1 = shade.y0 ? Y(*shade.y0) : bottom_;
    shades_ += fmt::format(R"(<rect class="shade" x="{}" y="{}" width="{}" height="{}"/>)", N(x0),
                           N(top_), N(right_ - x0), N(y1 - top_));
    if (shade.label.empty()) return;
    // At the foot, or at the top where the label of a reference line has the foot.
    const bool is_foot_taken = std::any_of(
        panel_.references.begin(), panel_.references.end(), [&](const Reference& reference) {
          return !reference.label.empty() && bottom_ - Y(reference.y) < 2 * kLineGap;
        });
    notes_ += fmt::format(R"(<text class="note" x="{}" y="{}" text-anchor="end">{}</text>)",
                          N(right_ - 4), N(is_foot_taken ? top_ + 12 : bottom_ - 6),
                          io::EscapeHtml(shade.label));
  }

  void Draw(const Reference& reference) {
    const double x0 = reference.x0 ? X(*reference.x0) : left_;
    const double x1 = reference.x1 ? X(*reference.x1) : right_;
    const double y = Y(reference.y);
    back_ += fmt::format(R"(<path class="reference" d="M{} {}H{}"/>)", N(x0), N(y), N(x1));
    if (reference.label.empty() || panel_.is_small) return;
    // On the side with more room, or on the other one where a label stands there already.
    const bool is_high = y < (top_ + bottom_) / 2;
    const double width = WidthOf(reference.label, 12);
    const auto box_at = [&](bool is_below) {
      const double base = is_below ? y + 12 : y - 4;
      return Box{x0, base - 10, x0 + width, base + 2};
    };
    const bool is_taken =
        std::any_of(reference_labels_.begin(), reference_labels_.end(),
                    [&](const Box& other) { return Overlap(other, box_at(is_high)) > 0; });
    const Box& box = reference_labels_.emplace_back(box_at(is_high != is_taken));
    notes_ += fmt::format(R"(<text class="note" x="{}" y="{}">{}</text>)", N(x0 + 2), N(box.y1 - 2),
                          io::EscapeHtml(reference.label));
  }

  Pixels PixelsOf(const std::vector<Mark>& marks) const {
    Pixels pixels;
    for (const Mark& mark : marks) {
      if (mark.failed.empty()) pixels.emplace_back(X(mark.x), Y(mark.y));
    }
    return pixels;
  }

  void DrawBand(const Series& series) {
    Pixels low;
    std::string path;
    for (const Mark& mark : series.marks) {
      if (!mark.low || !mark.failed.empty()) continue;
      path += fmt::format("{}{} {}", path.empty() ? "M" : "L", N(X(mark.x)), N(Y(*mark.high)));
      low.emplace_back(X(mark.x), Y(*mark.low));
    }
    if (low.size() < 2) return;
    for (auto point = low.rbegin(); point != low.rend(); ++point) {
      path += fmt::format("L{} {}", N(point->first), N(point->second));
    }
    front_ += fmt::format(R"(<path class="band" d="{}Z"/>)", path);
  }

  void Draw(const Series& series) {
    const MixerStyle& style = StyleOf(series);
    front_ += fmt::format(R"(<g class="c-{}{}" data-m="m{}">)", style.colour,
                          style.is_hybrid ? " hybrid" : "", series.mixer);
    const Pixels pixels = PixelsOf(series.marks);
    if (series.has_band) DrawBand(series);
    if (pixels.size() > 1 && series.form != Series::Form::kMarks) {
      const char* look = series.form == Series::Form::kThin ? "thin"
                         : series.is_dotted                 ? "line second"
                                                            : "line";
      front_ += fmt::format(R"(<path class="{}" d="{}"/>)", look, Path(pixels));
    }
    if (panel_.has_rows) {
      DrawRow(series, style);
      front_ += "</g>";
      return;
    }
    for (const Mark& mark : series.marks) {
      const double x = X(mark.x);
      const double y = Y(mark.y);
      if (mark.failed.empty() && mark.low && !series.has_band && series.has_marks) {
        front_ += fmt::format(R"(<path class="whisker" d="M{} {}V{}"/>)", N(x), N(Y(*mark.low)),
                              N(Y(*mark.high)));
      }
      if (!mark.failed.empty()) {
        front_ += fmt::format(R"(<g class="pt">{}{}</g>)", Title(mark.note), Cross(x, y));
        taken_.push_back({x - 5, y - 5, x + 5, y + 5});
        if (!panel_.is_small && mark.failed != last_word_) {
          const Box word = BoxOfWord(x, y, mark.failed);
          notes_ +=
              fmt::format(R"(<text class="note bad" x="{}" y="{}" text-anchor="middle">{}</text>)",
                          N(x), N(word.y1 - 2), io::EscapeHtml(mark.failed));
          taken_.push_back(word);
          last_word_ = mark.failed;
        }
        continue;
      }
      if (!series.has_marks) continue;
      front_ += fmt::format(R"(<g class="pt">{}{}</g>)", Title(mark.note),
                            Marker(style.marker, x, y, panel_.is_small ? 2.8 : 3.4));
      taken_.push_back({x - 5, y - 5, x + 5, y + 5});
    }
    front_ += "</g>";
    if (series.has_name && !pixels.empty()) {
      ends_.push_back({series.mixer, pixels.back().first, pixels.back().second});
    }
  }

  // Marks of a row on its axis, and beside the plot those of what was never reached.
  void DrawRow(const Series& series, const MixerStyle& style) {
    std::vector<const Mark*> reached;
    std::vector<const Mark*> never;
    std::vector<RowMark> on_axis;
    for (const Mark& mark : series.marks) {
      (mark.is_never ? never : reached).push_back(&mark);
      if (!mark.is_never) on_axis.push_back({.x = X(mark.x), .is_ringed = mark.is_ringed});
    }
    for (const RowPlace& place : PlacesInRow(on_axis)) DrawPlace(place, reached, style);
    for (const RowPlace& place : PlacesInZone(never.size(), right_ + 22)) {
      DrawPlace(place, never, style);
    }
  }

  // The first mark of a place, and right of it how many there are.
  void DrawPlace(const RowPlace& place, const std::vector<const Mark*>& marks,
                 const MixerStyle& style) {
    constexpr std::size_t kNotes = 8;  // a tooltip that is no longer than a screen of a phone
    const Mark& mark = *marks[place.marks.front()];
    const double y = Y(mark.y) + place.dy;
    std::string note;
    for (std::size_t i = 0; i < std::min(place.marks.size(), kNotes); ++i) {
      note += (i == 0 ? "" : "\n") + marks[place.marks[i]]->note;
    }
    const std::size_t num = place.marks.size();
    if (num > kNotes) note += fmt::format("\nand {} more", num - kNotes);
    const double r = mark.is_ringed ? 4.2 : 3.4;
    front_ += fmt::format(
        R"(<g class="pt">{}{}</g>)", Title(note),
        mark.failed.empty() ? Marker(style.marker, place.x, y, r) : Cross(place.x, y, 3.4));
    if (mark.failed.empty() && mark.is_ringed) {
      front_ += fmt::format(R"(<circle class="ring" cx="{}" cy="{}" r="7.2"/>)", N(place.x), N(y));
    }
    if (num == 1) return;
    notes_ += fmt::format(R"(<text class="note" x="{}" y="{}">×{}</text>)",
                          N(place.x + (mark.is_ringed ? 9 : 6)), N(y + 3.8), num);
  }

  // Where the word of a failed mark stands: above it, unless the label of a line is there.
  Box BoxOfWord(double x, double y, const std::string& word) const {
    const double half = WidthOf(word, 12) / 2;
    const auto box_at = [&](double base) { return Box{x - half, base - 10, x + half, base + 2}; };
    for (const double base : {y - 8, y + 17, y - 21}) {
      const Box box = box_at(base);
      const bool is_taken = std::any_of(reference_labels_.begin(), reference_labels_.end(),
                                        [&](const Box& label) { return Overlap(label, box) > 0; });
      if (!is_taken && base < bottom_) return box;
    }
    return box_at(y - 8);
  }

  struct End {
    int mixer;
    double x, y;
  };

  // `anchor` is SVG's text-anchor: which part of the text stands at x.
  void Name(int mixer, double x, double y, const std::string& text,
            std::string_view anchor = "start") {
    const MixerStyle& style = mixers_[static_cast<std::size_t>(mixer)];
    notes_ += fmt::format(
        R"(<text class="name c-{}" data-m="m{}" text-anchor="{}" x="{}" y="{}">{}</text>)",
        style.colour, mixer, anchor, N(x), N(y), io::EscapeHtml(text));
  }

  // Names right of the plot, in the order of the lines, with leader lines where they moved.
  void NameEnds() {
    std::vector<double> targets;
    for (const End& end : ends_) targets.push_back(end.y);
    const std::vector<double> places = SpreadApart(targets, kLineGap, top_ + 4, bottom_ - 2);
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      const End& end = ends_[i];
      const double x = right_ + 16;
      if (std::abs(places[i] - end.y) > 2 || end.x < right_ - 1) {
        back_ += fmt::format(R"(<path class="leader" d="M{} {}L{} {}H{}"/>)", N(end.x + 6),
                             N(end.y), N(x - 9), N(places[i]), N(x - 3));
      }
      const std::string& label = mixers_[static_cast<std::size_t>(end.mixer)].label;
      Name(end.mixer, x, places[i] + 4, Fitted(label, width_ - x, kNameSize));
    }
  }

  // Names beside their points where they have room; the notes of the marks have all of them.
  void NameNear() {
    const auto label = [&](const End& end) -> const std::string& {
      return mixers_[static_cast<std::size_t>(end.mixer)].label;
    };
    std::vector<NamedPoint> points;
    for (const End& end : ends_) {
      points.push_back({end.x, end.y, WidthOf(label(end), kNameSize)});
    }
    std::vector<Box> taken = taken_;
    taken.insert(taken.end(), reference_labels_.begin(), reference_labels_.end());
    const auto places = PlaceNames(points, {left_, top_ - 8, width_, bottom_}, std::move(taken));
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      if (!places[i]) continue;
      Name(ends_[i].mixer, places[i]->x, places[i]->y, label(ends_[i]), places[i]->anchor);
    }
  }

  const Panel& panel_;
  const std::vector<MixerStyle>& mixers_;
  double width_ = 0, height_ = 0, left_ = 0, right_ = 0, top_ = 0, bottom_ = 0;
  std::size_t lines_ = 1;
  std::string shades_, back_, front_, notes_;
  std::string last_word_;
  std::vector<End> ends_;
  std::vector<Box> taken_;
  std::vector<Box> reference_labels_;
  std::vector<std::string> title_;
};

}  // namespace

std::vector<double> SpreadApart(const std::vector<double>& targets, double gap, double low,
                                double high) {
  std::vector<std::size_t> order(targets.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return targets[a] < targets[b]; });
  if (order.size() > 1) gap = std::min(gap, (high - low) / static_cast<double>(order.size() - 1));
  struct Pool {
    double mean;
    double count;
  };
  std::vector<Pool> blocks;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    blocks.push_back({targets[order[rank]] - gap * static_cast<double>(rank), 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean > blocks.back().mean) {
      const Pool last = blocks.back();
      blocks.pop_back();
      Pool& merged = blocks.back();
      merged.mean =
          (merged.mean * merged.count + last.mean * last.count) / (merged.count + last.count);
      merged.count += last.count;
    }
  }
  std::vector<double> places(targets.size());
  const double top = high - gap * static_cast<double>(std::max<std::size_t>(order.size(), 1) - 1);
  std::size_t rank = 0;
  for (const Pool& block : blocks) {
    for (double i = 0; i < block.count; ++i, ++rank) {
      places[order[rank]] =
          std::max(low, std::min(block.mean, top)) + gap * static_cast<double>(rank);
    }
  }
  return places;
}

std::string RenderPanel(const Panel& panel, const std::vector<MixerStyle>& mixers) {
  return Drawing(panel, mixers).Render();
}

std::string RenderSwatch(const MixerStyle& style) {
  return fmt::format(
      R"(<svg class="swatch c-{}{}" viewBox="0 0 26 12" aria-hidden="true"><path class="line" d="M0 6H26"/><g class="pt">{}</g></svg>)",
      style.colour, style.is_hybrid ? " hybrid" : "", Marker(style.marker, 13, 6, 3.8));
}

std::string RenderRank(const RankBand& rank) {
  constexpr double kRankWidth = 120;
  const auto at = [&](double place) {
    return 8 + (place - 1) * (kRankWidth - 16) / std::max(1, rank.of - 1);
  };
  std::string dots;
  for (int i = 1; i <= rank.of; ++i) {
    dots += fmt::format(R"(<circle class="slot" cx="{}" cy="10" r="1.6"/>)", N(at(i)));
  }
  return fmt::format(
      R"(<svg class="rank" viewBox="0 0 120 20" aria-hidden="true">{}<rect class="band" x="{}" y="5" width="{}" height="10" rx="5"/><circle class="value" cx="{}" cy="10" r="4"/></svg>)",
      dots, N(at(rank.low) - 6), N(at(rank.high) - at(rank.low) + 12), N(at(rank.place)));
}

}  // namespace mixerbench::reports
