#include "common/train/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/io/file.h"
#include "common/io/svg.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr double kLeft = 160, kTop = 52, kWidth = 860, kRow = 26, kBetweenRanks = 10;

struct Span {
  size_t lane = 0;          // 0 computes, the others communicate
  std::string what, unit;   // "backward" of "h.3", "gradient all_reduce" of ""
  double from = 0, to = 0;  // microseconds
};
using Spans = std::vector<Span>;

Span span_of(const nlohmann::json& event) {
  Span span;
  span.lane = event.at("tid");
  span.what = event.at("name");
  span.from = event.at("ts");
  span.to = span.from + event.at("dur").get<double>();
  const size_t blank = span.what.rfind(' ');
  if (span.lane == 0 && blank != std::string::npos) {
    span.unit = span.what.substr(0, blank);
    span.what = span.what.substr(blank + 1);
  }
  return span;
}

// Erases what is computed within another span: a unit's kernels, which a simulated run lists.
// REQUIRES: the spans are in the order in which they begin, and enclosing ones come first.
void erase_enclosed(Spans& spans) {
  constexpr double kRounding = 1e-3;  // microseconds
  double end = -std::numeric_limits<double>::infinity();
  std::erase_if(spans, [&](const Span& span) {
    if (span.lane != 0) return false;
    if (span.to <= end + kRounding) return true;
    end = span.to;
    return false;
  });
}

// The spans of each rank, in the order in which they begin.
std::map<size_t, Spans> spans_of(const std::string& trace) {
  std::map<size_t, Spans> ranks;
  try {
    const nlohmann::json document = nlohmann::json::parse(trace);
    for (const nlohmann::json& event : document.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      Span span = span_of(event);
      if (span.what.find("control ") != std::string::npos) continue;
      ranks[event.at("pid")].push_back(std::move(span));
    }
  } catch (const nlohmann::json::exception& error) {
    throw UserError(concat("no trace of a run: ", error.what()));
  }
  for (auto& [rank, spans] : ranks) {
    std::ranges::stable_sort(spans, {}, &Span::from);
    erase_enclosed(spans);
  }
  return ranks;
}

// When each step of a rank ends: its last update.
std::vector<double> ends_of_steps(const Spans& spans) {
  std::vector<double> ends;
  bool updates = false;
  for (const Span& span : spans) {
    if (span.lane != 0) continue;
    if (span.what != "AdamW") {
      updates = false;
    } else if (updates) {
      ends.back() = span.to;
    } else {
      updates = true;
      ends.push_back(span.to);
    }
  }
  return ends;
}

Spans spans_of_step(const Spans& spans, size_t rank, size_t step) {
  const std::vector<double> ends = ends_of_steps(spans);
  if (step < 1 || step > ends.size()) {
    throw UserError(concat("no step ", step, ": the trace has ", counted(ends.size(), "step"),
                           " of rank ", rank));
  }
  const double from = step == 1 ? -std::numeric_limits<double>::infinity() : ends[step - 2];
  Spans own;
  std::ranges::copy_if(spans, std::back_inserter(own), [&](const Span& span) {
    return span.from >= from && span.from < ends[step - 1];
  });
  return own;
}

// What a colour means here.
struct Kind {
  Colour colour;
  std::string name;
};

Kind kind_of(const Span& span) {
  if (span.what == "forward") return {Colour::forward, "forward"};
  if (span.what == "classifier") return {Colour::activations, "classifier"};
  if (span.what == "recompute") return {Colour::gradients, "recompute"};
  if (span.what.starts_with("backward")) return {Colour::backward, "backward"};
  if (span.what == "AdamW") return {Colour::optimizer, "update"};
  if (span.lane == 0) return {Colour::workspace, "other work"};
  if (span.what.find("gradient ") != std::string::npos) return {Colour::communication, span.what};
  if (span.what.find("parameter ") != std::string::npos) return {Colour::parameters, span.what};
  // A simulated run names the groups, but for that of all ranks.
  if (span.what.starts_with("tensor ")) return {Colour::gradients, "tensor group"};
  if (span.what.starts_with("pipeline ")) return {Colour::activations, "pipeline"};
  if (span.what.starts_with("data ")) return {Colour::communication, "data group"};
  const bool has_group = span.what.find(' ') != std::string::npos;
  if (!has_group && span.what != "copy") return {Colour::communication, "all ranks"};
  return {Colour::workspace, "other communication"};
}

// 1, 2 or 5 times a power of ten, so that `length` has 5 to 12 of it.
double tick_for(double length) {
  const double power = std::pow(10, std::floor(std::log10(length / 5)));
  const double rest = length / 5 / power;
  return power * (rest >= 5 ? 5 : rest >= 2 ? 2 : 1);
}

std::string milliseconds(double microseconds) {
  return concat(std::round(microseconds / 10) / 100, " ms");
}

// From the first begin to the last end.
struct Extent {
  double from = std::numeric_limits<double>::infinity(), to = -from;
};

Extent extent_of(const std::map<size_t, Spans>& ranks) {
  Extent extent;
  for (const auto& [rank, spans] : ranks) {
    for (const Span& span : spans) {
      extent.from = std::min(extent.from, span.from);
      extent.to = std::max(extent.to, span.to);
    }
  }
  return extent;
}

size_t num_lanes(const Spans& spans) { return std::ranges::max(spans, {}, &Span::lane).lane + 1; }

void draw_axis(Svg& svg, double length, double y) {
  svg.line(kLeft, y, kLeft + kWidth, y);
  const double tick = tick_for(length);
  for (int i = 0; i * tick <= length; ++i) {
    const double x = kLeft + kWidth * i * tick / length;
    svg.line(x, y, x, y + 5);
    svg.text(x, y + 19, milliseconds(i * tick), {.anchor = Svg::Anchor::middle});
  }
}

void draw_rank(Svg& svg, const Spans& spans, const Extent& extent, double top) {
  constexpr double kLetter = 7;
  const double scale = kWidth / (extent.to - extent.from);
  for (size_t lane = 0; lane < num_lanes(spans); ++lane) {
    svg.rect(Colour::idle, kLeft, top + kRow * static_cast<double>(lane), kWidth, kRow - 4);
  }
  for (const Span& span : spans) {
    const double x = kLeft + scale * (span.from - extent.from);
    const double y = top + kRow * static_cast<double>(span.lane);
    const double width = scale * (span.to - span.from);
    svg.rect(kind_of(span).colour, x, y, width, kRow - 4,
             concat(span.unit, span.unit.empty() ? "" : " ", span.what, ": ",
                    milliseconds(span.to - span.from)));
    if (width < kLetter * static_cast<double>(span.unit.size()) + 2) continue;
    svg.text(x + width / 2, y + 15, span.unit, {.anchor = Svg::Anchor::middle});
  }
}

}  // namespace

std::string timeline(const std::string& trace, size_t step) {
  std::map<size_t, Spans> ranks = spans_of(trace);
  if (ranks.empty()) throw UserError("no trace of a run: it has no spans");
  if (step == 0) step = ends_of_steps(ranks.begin()->second).size();
  size_t num_rows = 0;
  std::vector<Kind> kinds;
  for (auto& [rank, spans] : ranks) {
    spans = spans_of_step(spans, rank, step);
    num_rows += num_lanes(spans);
    for (const Span& span : spans) {
      const Kind kind = kind_of(span);
      if (!std::ranges::count(kinds, kind.name, &Kind::name)) kinds.push_back(kind);
    }
  }
  const Extent extent = extent_of(ranks);
  const double bottom = kTop + kRow * static_cast<double>(num_rows) +
                        kBetweenRanks * static_cast<double>(ranks.size());
  Svg svg(kLeft + kWidth + 40, bottom + 66);
  svg.text(10, 26,
           concat("Step ", step, " on ", counted(ranks.size(), "rank"), ": ",
                  milliseconds(extent.to - extent.from)),
           {.size = 16, .bold = true});
  double top = kTop;
  for (const auto& [rank, spans] : ranks) {
    svg.text(10, top + 15, concat("rank ", rank, " computes"));
    if (num_lanes(spans) > 1) svg.text(10, top + kRow + 15, "communicates");
    draw_rank(svg, spans, extent, top);
    top += kRow * static_cast<double>(num_lanes(spans)) + kBetweenRanks;
  }
  draw_axis(svg, extent.to - extent.from, bottom);
  double x = kLeft;
  for (const Kind& kind : kinds) x = svg.legend(x, bottom + 38, kind.colour, kind.name);
  return svg.str();
}

std::string timeline_of_file(const std::string& path, size_t step) {
  const std::string text = read_file(path);
  try {
    return timeline(text, step);
  } catch (const UserError& error) {
    throw UserError(concat(path, ": ", error.what()));
  }
}

}  // namespace ladder
