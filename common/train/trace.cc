#include "common/train/trace.h"

#include <algorithm>
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

std::vector<size_t> Trace::lanes_of(const std::vector<Span>& spans) {
  std::vector<size_t> lanes;
  std::vector<Time> free_from(1);  // of each lane for communication
  for (const Span& span : spans) {
    if (span.lane == Lane::compute) {
      lanes.push_back(0);
      continue;
    }
    size_t lane = 0;
    while (lane < free_from.size() && free_from[lane] > span.from) ++lane;
    free_from.resize(std::max(free_from.size(), lane + 1));
    free_from[lane] = span.to;
    lanes.push_back(1 + lane);
  }
  return lanes;
}

std::string Trace::json(size_t rank) const {
  const auto microseconds = [&](Time time) {
    return std::chrono::duration<double, std::micro>(time - begin_).count();
  };
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
  const std::vector<size_t> lanes = lanes_of(spans);
  const size_t last = lanes.empty() ? 1 : std::max<size_t>(1, std::ranges::max(lanes));
  for (size_t lane = 0; lane <= last; ++lane) {
    append({{"name", "thread_name"},
            {"ph", "M"},
            {"pid", rank},
            {"tid", lane},
            {"args", {{"name", lane == 0 ? "compute" : "communication"}}}});
  }
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    append({{"name", span.name},
            {"ph", "X"},
            {"pid", rank},
            {"tid", lanes[i]},
            {"ts", microseconds(span.from)},
            {"dur", microseconds(span.to) - microseconds(span.from)}});
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
  for_text_of_each(trace.json(world.rank()), world,
                   [&](const std::string& events) { writer->add(events); });
  if (writer) writer->finish();
  return static_cast<size_t>(std::accumulate(left_out.begin(), left_out.end(), 0.0));
}

}  // namespace ladder
