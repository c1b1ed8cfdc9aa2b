#include "common/train/report/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/io/file.h"
#include "common/io/path.h"
#include "common/io/svg.h"
#include "common/train/report/step_spans.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr double kLeft = 180, kRight = 40, kTop = 52, kWidth = 860, kRow = 26, kBetweenRanks = 10;

// 1, 2 or 5 times a power of ten, so that `length` has 5 to 12 of it.
double tick_for(double length) {
  const double power = std::pow(10, std::floor(std::log10(length / 5)));
  const double rest = length / 5 / power;
  return power * (rest >= 5 ? 5 : rest >= 2 ? 2 : 1);
}

std::string milliseconds(double microseconds) {
  return concat(std::round(microseconds / 10) / 100, " ms");
}

// As above, but "1.5 us" of what would be 0.00 ms.
std::string length_text(const StepSpan& span) {
  const double length = span.to - span.from;
  return length < 10 ? concat(length, " us") : milliseconds(length);
}

// From the first begin to the last end.
struct Extent {
  double from = std::numeric_limits<double>::infinity(), to = -from;
};

Extent extent_of(const std::map<size_t, RankStep>& ranks) {
  Extent extent;
  for (const auto& [number, rank] : ranks) {
    for (const StepSpan& span : rank.spans) {
      extent.from = std::min(extent.from, span.from);
      extent.to = std::max(extent.to, span.to);
    }
  }
  return extent;
}

// Returns "computes", or "communicates 2" of a row with that number.
std::string label_of(std::string_view row) {
  const size_t blank = std::min(row.find(' '), row.size());
  return concat(row.starts_with("compute") ? "computes" : "communicates", row.substr(blank));
}

void draw_rank(Svg& svg, const std::string& name, const RankStep& rank, const Extent& extent,
               double top) {
  const double scale = kWidth / (extent.to - extent.from);
  for (size_t row = 0; row < rank.rows.size(); ++row) {
    const double y = top + kRow * static_cast<double>(row);
    svg.rect(Colour::idle, kLeft, y, kWidth, kRow - 4);
    svg.text(10, y + 15, concat(row == 0 ? name + " " : "", label_of(rank.rows[row])));
  }
  for (const StepSpan& span : rank.spans) {
    const double x = kLeft + scale * (span.from - extent.from);
    const double y = top + kRow * static_cast<double>(span.row);
    const double width = scale * (span.to - span.from);
    const Colour colour = kind_of(span).colour;
    svg.box(colour, x, y, width, kRow - 4,
            concat(span.unit, span.unit.empty() ? "" : " ", span.what, ": ", length_text(span)));
    if (!span.unit.empty()) svg.label(colour, x, y, width, kRow - 4, span.unit);
  }
}

// Draws the legend from y on, in as many lines as it takes. Returns how high it is.
double draw_legend(Svg* svg, const std::vector<SpanKind>& kinds, double y) {
  constexpr double kBegin = 10, kLine = 20;
  double x = kBegin, line = 0;
  for (const SpanKind& kind : kinds) {
    const double width = 17 + text_width(kind.name, Svg::TextStyle().size);
    if (x + width > kLeft + kWidth + kRight) {
      x = kBegin;
      line += kLine;
    }
    if (svg != nullptr) svg->legend(x, y + line, kind.colour, kind.name);
    x += width + 18;
  }
  return line + kLine;
}

}  // namespace

void draw_time_axis(Svg& svg, double left, double width, double microseconds, double y) {
  svg.line(left, y, left + width, y);
  const double tick = tick_for(microseconds);
  for (int i = 0; i * tick <= microseconds; ++i) {
    const double x = left + width * i * tick / microseconds;
    svg.line(x, y, x, y + 5);
    svg.text(x, y + 19, milliseconds(i * tick), {.anchor = Svg::Anchor::middle});
  }
}

std::string timeline(const std::string& trace, size_t step) {
  const auto [number_of_step, ranks] = step_of(trace, step);
  size_t num_rows = 0;
  std::vector<SpanKind> kinds;
  for (const auto& [number, rank] : ranks) {
    num_rows += rank.rows.size();
    for (const StepSpan& span : rank.spans) {
      const SpanKind kind = kind_of(span);
      if (!std::ranges::count(kinds, kind.name, &SpanKind::name)) kinds.push_back(kind);
    }
  }
  const Extent extent = extent_of(ranks);
  const double bottom = kTop + kRow * static_cast<double>(num_rows) +
                        kBetweenRanks * static_cast<double>(ranks.size());
  Svg svg(kLeft + kWidth + kRight, bottom + 46 + draw_legend(nullptr, kinds, 0));
  svg.title(concat("Step ", number_of_step, " on ", counted(ranks.size(), "rank"), ": ",
                   milliseconds(extent.to - extent.from)));
  double top = kTop;
  for (const auto& [number, rank] : ranks) {
    draw_rank(svg, concat("rank ", number), rank, extent, top);
    top += kRow * static_cast<double>(rank.rows.size()) + kBetweenRanks;
  }
  draw_time_axis(svg, kLeft, kWidth, extent.to - extent.from, bottom);
  draw_legend(&svg, kinds, bottom + 38);
  return svg.str();
}

std::string timeline_of_file(const std::string& path, size_t step) {
  const std::string text = read_file(path);
  return named_by(concat(path, ":").c_str(), [&] { return timeline(text, step); });
}

}  // namespace ladder
