#include "common/train/report/step_spans.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/io/printable.h"
#include "common/optimizer/rule.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using Span = StepSpan;
using Spans = std::vector<StepSpan>;
using Ranks = std::map<size_t, RankStep>;

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
  if (span.computes && is_update_kernel(span.what)) span.what = kUpdateRange;
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
      RankStep& rank = ranks[event.at("pid")];
      Span span = span_of(event, row->second, rank.rows[row->second]);
      if (span.what.find("control ") != std::string::npos) continue;
      rank.spans.push_back(std::move(span));
    }
  } catch (const nlohmann::json::exception& error) {
    throw UserError(concat("no trace of a run: ", said(error)));
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
    if (span.what != kUpdateRange) {
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

// The rows that have a span, from the top; the row of each span becomes its place there.
std::vector<std::string> used_rows(RankStep& rank) {
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

}  // namespace

TracedStep step_of(const std::string& trace, size_t step) {
  TracedStep traced = {step, ranks_of(trace)};
  if (traced.ranks.empty()) throw UserError("no trace of a run: it has no spans");
  if (step == 0) traced.step = ends_of_steps(traced.ranks.begin()->second.spans).size();
  for (auto& [number, rank] : traced.ranks) {
    rank.spans = spans_of_step(rank.spans, number, traced.step);
    rank.rows = used_rows(rank);
  }
  return traced;
}

SpanKind kind_of(const StepSpan& span) {
  if (span.what == "forward") return {Colour::forward, "forward"};
  if (span.what == "classifier") return {Colour::classifier, "classifier"};
  if (span.what == "recompute") return {Colour::recompute, "recompute"};
  if (span.what.starts_with("backward")) return {Colour::backward, "backward"};
  if (span.what == kUpdateRange) return {Colour::optimizer, "update"};
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

}  // namespace ladder
