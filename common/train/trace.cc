#include "common/train/trace.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

namespace ladder {
namespace {

// Appends the texts of all ranks on rank 0, in rank order; "" elsewhere. Texts travel as int32.
std::string gather_texts(std::string text, Communicator& world) {
  Stream host(DeviceType::cpu);
  const CallOptions options = {};
  std::vector<int32_t> lengths(world.size());
  lengths[world.rank()] = static_cast<int32_t>((text.size() + 3) / 4);
  const TensorView all(lengths.data(), DType::int32, DeviceType::cpu, {world.size()});
  world.all_gather(host, all, all.rows(world.rank(), 1), options).wait(host);

  const auto words = [](std::string& bytes, int32_t length) {
    bytes.resize(4 * static_cast<size_t>(length), ' ');
    return TensorView(bytes.data(), DType::int32, DeviceType::cpu, {static_cast<size_t>(length)});
  };
  if (world.rank() != 0) {
    world.send(host, words(text, lengths[world.rank()]), 0, options).wait(host);
    return {};
  }
  for (size_t r = 1; r < world.size(); ++r) {
    std::string other;
    world.recv(host, words(other, lengths[r]), r, options).wait(host);
    text += ",\n" + other;
  }
  return text;
}

}  // namespace

void Trace::add(Lane lane, std::string name, Time from, Time to) {
  const std::lock_guard lock(mutex_);
  spans_.push_back({lane, std::move(name), from, to});
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
  std::vector<Span> spans;
  {
    const std::lock_guard lock(mutex_);
    spans = spans_;
  }
  std::ranges::stable_sort(spans, {}, &Span::from);
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

void write_trace(const Trace& trace, PartialFile* file, Communicator& world) {
  const std::string events = gather_texts(trace.json(world.rank()), world);
  if (file == nullptr) return;
  const std::string text = "{\"traceEvents\": [\n" + events + "\n]}\n";
  file->write(std::as_bytes(std::span(text)));
  file->commit();
}

}  // namespace ladder
