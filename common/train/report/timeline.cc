#include "common/train/report/timeline.h"

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
  size_t row = 0;  // of its rank
  bool computes = false;
  std::string what, unit;   // "backward" of "h.3", "gradient all_reduce" of ""
  double from = 0, to = 0;  // microseconds
};
using Spans = std::vector<Span>;

struct Rank {
  std::vector<std::string> rows;  // their names in the trace, those that compute first
  Spans spans;                    // in the order in which they begin
};
using Ranks = std::map<size_t, Rank>;

bool computes(std::string_view row) { return row.starts_with("compute"); }

Span span_of(const nlohmann::json& event, size_t row, const std::string& row_name) {
  Span span = {.row = row, .computes = computes(row_name), .what = event.at("name"), .unit = {}};
  span.from = event.at("ts");
  span.to = span.from + event.at("dur").get<double>();
  const size_t blank = span.what.rfind(' ');
  if (span.computes && blank != std::string::npos) {
    span.unit = span.what.substr(0, blank);
    span.what = span.what.substr(blank + 1);
  }
  if (span.computes && span.what == "adamw") span.what = "AdamW";  // on a simulated host
  return span;
}

// Erases what is computed within another span: a unit's kernels, which a simulated run lists.
// REQUIRES: the spans are in the order in which they begin, and enclosing ones come first.
void erase_enclosed(Spans& spans) {
  constexpr double kRounding = 1e-3;  // microseconds
  std::map<size_t, double> ends;      // by row
  std::erase_if(spans, [&](const Span& span) {
    if (!span.computes) return false;
    const auto [end, is_first] = ends.try_emplace(span.row, span.to);
    if (!is_first && span.to <= end->second + kRounding) return true;
    end->second = span.to;
    return false;
  });
}

// The rows of all ranks, and the thread that each has in the trace.
std::map<std::pair<size_t, size_t>, size_t> rows_of(const nlohmann::json& events, Ranks& ranks) {
  std::map<std::pair<size_t, size_t>, size_t> rows;
  for (const bool wanted : {true, false}) {
    for (const nlohmann::json& event : events) {
      if (event.at("ph") != "M" || event.at("name") != "thread_name") continue;
      const std::string name = event.at("args").at("name");
      if (computes(name) != wanted) continue;
      std::vector<std::string>& names = ranks[event.at("pid")].rows;
      rows[{event.at("pid"), event.at("tid")}] = names.size();
      names.push_back(name);
    }
  }
  return rows;
}

Ranks ranks_of(const std::string& trace) {
  Ranks ranks;
  try {
    const nlohmann::json document = nlohmann::json::parse(trace);
    const nlohmann::json& events = document.at("traceEvents");
    const auto rows = rows_of(events, ranks);
    for (const nlohmann::json& event : events) {
      if (event.at("ph") != "X") continue;
      const auto row = rows.find({event.at("pid"), event.at("tid")});
      if (row == rows.end()) throw UserError("no trace of a run: a thread has no name");
      Rank& rank = ranks[event.at("pid")];
      Span span = span_of(event, row->second, rank.rows[row->second]);
      if (span.what.find("control ") != std::string::npos) continue;
      rank.spans.push_back(std::move(span));
    }
  } catch (const nlohmann::json::exception& error) {
    throw UserError(concat("no trace of a run: ", error.what()));
  }
  std::erase_if(ranks, [](const auto& rank) { return rank.second.spans.empty(); });
  for (auto& [number, rank] : ranks) {
    std::ranges::stable_sort(rank.spans, {}, &Span::from);
    erase_enclosed(rank.spans);
  }
  return ranks;
}

// When each step of a rank ends: its last update.
std::vector<double> ends_of_steps(const Spans& spans) {
  std::vector<double> ends;
  bool updates = false;
  for (const Span& span : spans) {
    if (!span.computes) continue;
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
  if (span.what == "classifier") return {Colour::classifier, "classifier"};
  if (span.what == "recompute") return {Colour::recompute, "recompute"};
  if (span.what.starts_with("backward")) return {Colour::backward, "backward"};
  if (span.what == "AdamW") return {Colour::optimizer, "update"};
  if (span.computes) return {Colour::workspace, "other work"};
  const auto has = [&](std::string_view word) { return span.what.find(word) != std::string::npos; };
  if (has("gradient ")) return {Colour::communication, "gradients"};
  if (has("parameter ")) return {Colour::parameters, "parameters"};
  // A simulated run names the groups, but for that of all ranks.
  if (span.what.starts_with("tensor ")) return {Colour::tensor_group, "tensor group"};
  if (span.what.starts_with("pipeline ")) return {Colour::pipeline, "pipeline"};
  if (span.what.starts_with("data ")) return {Colour::data_group, "data group"};
  if (has("activation ")) return {Colour::activations, "activations"};
  if (!has(" ") && span.what != "copy") return {Colour::all_ranks, "all ranks"};
  return {Colour::other, "other communication"};
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

// As above, but "1.5 us" of what would be 0.00 ms.
std::string length_text(const Span& span) {
  const double length = span.to - span.from;
  return length < 10 ? concat(length, " us") : milliseconds(length);
}

// From the first begin to the last end.
struct Extent {
  double from = std::numeric_limits<double>::infinity(), to = -from;
};

Extent extent_of(const Ranks& ranks) {
  Extent extent;
  for (const auto& [number, rank] : ranks) {
    for (const Span& span : rank.spans) {
      extent.from = std::min(extent.from, span.from);
      extent.to = std::max(extent.to, span.to);
    }
  }
  return extent;
}

// The rows that have a span, from the top; the row of each span becomes its place there.
std::vector<std::string> used_rows(Rank& rank) {
  std::map<size_t, size_t> rows;
  for (const Span& span : rank.spans) rows[span.row];
  std::vector<std::string> names;
  for (auto& [row, row_number] : rows) {
    row_number = names.size();
    names.push_back(rank.rows[row]);
  }
  for (Span& span : rank.spans) span.row = rows[span.row];
  return names;
}

void draw_axis(Svg& svg, double length, double y) {
  svg.line(kLeft, y, kLeft + kWidth, y);
  const double tick = tick_for(length);
  for (int i = 0; i * tick <= length; ++i) {
    const double x = kLeft + kWidth * i * tick / length;
    svg.line(x, y, x, y + 5);
    svg.text(x, y + 19, milliseconds(i * tick), {.anchor = Svg::Anchor::middle});
  }
}

// Returns "computes", or "communicates 2" of a row with that number.
std::string label_of(std::string_view row) {
  const size_t blank = std::min(row.find(' '), row.size());
  return concat(computes(row) ? "computes" : "communicates", row.substr(blank));
}

void draw_rank(Svg& svg, const std::string& name, const Rank& rank, const Extent& extent,
               double top) {
  constexpr double kLetter = 7;
  const double scale = kWidth / (extent.to - extent.from);
  for (size_t row = 0; row < rank.rows.size(); ++row) {
    const double y = top + kRow * static_cast<double>(row);
    svg.rect(Colour::idle, kLeft, y, kWidth, kRow - 4);
    svg.text(10, y + 15, concat(row == 0 ? name + " " : "", label_of(rank.rows[row])));
  }
  for (const Span& span : rank.spans) {
    const double x = kLeft + scale * (span.from - extent.from);
    const double y = top + kRow * static_cast<double>(span.row);
    const double width = scale * (span.to - span.from);
    svg.box(kind_of(span).colour, x, y, width, kRow - 4,
            concat(span.unit, span.unit.empty() ? "" : " ", span.what, ": ", length_text(span)));
    if (width < kLetter * static_cast<double>(span.unit.size()) + 2) continue;
    svg.text(x + width / 2, y + 15, span.unit, {.anchor = Svg::Anchor::middle});
  }
}

}  // namespace

std::string timeline(const std::string& trace, size_t step) {
  Ranks ranks = ranks_of(trace);
  if (ranks.empty()) throw UserError("no trace of a run: it has no spans");
  if (step == 0) step = ends_of_steps(ranks.begin()->second.spans).size();
  size_t num_rows = 0;
  std::vector<Kind> kinds;
  for (auto& [number, rank] : ranks) {
    rank.spans = spans_of_step(rank.spans, number, step);
    rank.rows = used_rows(rank);
    num_rows += rank.rows.size();
    for (const Span& span : rank.spans) {
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
  for (const auto& [number, rank] : ranks) {
    draw_rank(svg, concat("rank ", number), rank, extent, top);
    top += kRow * static_cast<double>(rank.rows.size()) + kBetweenRanks;
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
