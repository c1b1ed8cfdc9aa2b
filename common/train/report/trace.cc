#include "common/train/report/trace.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

namespace ladder {
namespace {

// Returns the numbers that all ranks give, by rank. Collective.
std::vector<double> gather(double number, Communicator& world) {
  Stream host(DeviceType::cpu);
  std::vector<double> numbers(world.size());
  numbers[world.rank()] = number;
  const TensorView all(numbers.data(), DType::fp64, DeviceType::cpu, {world.size()});
  world.all_gather(host, all, all.rows(world.rank(), 1), {}).wait(host);
  return numbers;
}

// Pads a text with spaces and returns a view of it as int32, a dtype that communicators take.
TensorView words_of(std::string& text) {
  const size_t num_words = (text.size() + 3) / 4;
  text.resize(4 * num_words, ' ');
  return TensorView(text.data(), DType::int32, DeviceType::cpu, {num_words});
}

// Calls take(text) on rank 0 with the text of every rank, in rank order. Collective.
template <class Take>
void for_text_of_each(std::string text, Communicator& world, Take take) {
  Stream host(DeviceType::cpu);
  const std::vector<double> sizes = gather(static_cast<double>(text.size()), world);
  if (world.rank() != 0) return world.send(host, words_of(text), 0, {}).wait(host);
  take(text);
  for (size_t r = 1; r < world.size(); ++r) {
    std::string other(static_cast<size_t>(sizes[r]), ' ');
    world.recv(host, words_of(other), r, {}).wait(host);
    take(other);
  }
}

std::string name_of(Trace::Lane lane) {
  return lane == Trace::Lane::compute ? "compute" : "communication";
}

// Perfetto multiplies by 1000 and cuts off what is after the point. That must give the nanoseconds
// again, or spans that meet would overlap by one.
double microseconds(Time::duration time) {
  const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  const auto nanoseconds = static_cast<double>(count);
  const double result = nanoseconds / 1000;
  if (std::trunc(result * 1000) == nanoseconds) return result;
  return std::nextafter(result, std::copysign(INFINITY, nanoseconds));
}

}  // namespace

void Trace::add(Lane lane, std::string name, Time from, Time to) {
  const std::lock_guard lock(mutex_);
  if (spans_.size() < max_spans_) {
    spans_.push_back({lane, std::move(name), from, to});
  } else {
    ++num_left_out_;
  }
}

size_t Trace::num_left_out() const {
  const std::lock_guard lock(mutex_);
  return num_left_out_;
}

void Trace::on_range(std::string_view name, Time begin, Time end) {
  add(Lane::compute, std::string(name), begin, end);
}

void Trace::observe(Communicator& communicator) {
  communicator.set_observer([this](const TrafficKey& key, Time from, Time to) {
    add(Lane::communication, name_of(key), from, to);
  });
}

std::vector<size_t> Trace::rows_of(const std::vector<Span>& spans, std::vector<Row>& rows) {
  std::vector<size_t> row_of;
  for (const Span& span : spans) {
    const auto takes = [&](Row& row) {
      if (row.lane != span.lane) return false;
      while (!row.open.empty() && row.open.back() <= span.from) row.open.pop_back();
      return row.open.empty() || (row.lane == Lane::compute && span.to <= row.open.back());
    };
    auto row = std::ranges::find_if(rows, takes);
    if (row == rows.end()) {
      const auto number = 1 + std::ranges::count(rows, span.lane, &Row::lane);
      row = rows.insert(row, {span.lane, concat(name_of(span.lane), " ", number)});
    }
    row->open.push_back(span.to);
    row_of.push_back(static_cast<size_t>(row - rows.begin()));
  }
  return row_of;
}

std::string Trace::json(size_t rank, size_t num_ranks) const {
  using Json = nlohmann::ordered_json;
  std::string text;
  const auto append = [&](const Json& event) {
    text += concat(text.empty() ? "" : ",\n", event.dump());
  };
  append({{"name", "process_name"},
          {"ph", "M"},
          {"pid", rank},
          {"args", {{"name", concat("rank ", rank)}}}});
  if (const size_t left_out = num_left_out(); left_out > 0) {
    append({{"name", "process_labels"},
            {"ph", "M"},
            {"pid", rank},
            {"args", {{"labels", concat("the last ", left_out, " spans are left out")}}}});
  }
  std::vector<Span> spans;
  {
    const std::lock_guard lock(mutex_);
    spans = spans_;
  }
  // What encloses another span comes before it, where both begin at the same time. If they also end
  // at the same time, the one that was added last encloses the other.
  std::ranges::reverse(spans);
  std::ranges::stable_sort(spans, [](const Span& a, const Span& b) {
    return a.from != b.from ? a.from < b.from : a.to > b.to;
  });
  std::vector<Row> rows;
  for (const Lane lane : {Lane::compute, Lane::communication})
    rows.push_back({lane, name_of(lane)});
  const std::vector<size_t> row_of = rows_of(spans, rows);
  // No number is 0 or a rank's, and none comes twice.
  const auto thread = [&](size_t row) { return (1 + row) * num_ranks + rank; };
  for (size_t row = 0; row < rows.size(); ++row) {
    append({{"name", "thread_name"},
            {"ph", "M"},
            {"pid", rank},
            {"tid", thread(row)},
            {"args", {{"name", rows[row].name}}}});
  }
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    append({{"name", span.name},
            {"ph", "X"},
            {"pid", rank},
            {"tid", thread(row_of[i])},
            {"ts", microseconds(span.from - begin_)},
            {"dur", microseconds(span.to - span.from)}});
  }
  return text;
}

void TraceWriter::add(const std::string& events) {
  file_.write(before_ + events);
  before_ = ",\n";
}

void TraceWriter::finish() {
  file_.write("\n]}\n");
  file_.commit();
}

size_t write_trace(const Trace& trace, PartialFile* file, Communicator& world) {
  const std::vector<double> left_out = gather(static_cast<double>(trace.num_left_out()), world);
  std::optional<TraceWriter> writer;
  if (file != nullptr) writer.emplace(*file);
  for_text_of_each(trace.json(world.rank(), world.size()), world,
                   [&](const std::string& events) { writer->add(events); });
  if (writer) writer->finish();
  return static_cast<size_t>(std::accumulate(left_out.begin(), left_out.end(), 0.0));
}

}  // namespace ladder
