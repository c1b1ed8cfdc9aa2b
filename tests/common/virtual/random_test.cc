// Random work on the virtual device, against counts that are made in another way: how long
// operations take that share ports, and between which ranks of the world groups communicate.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "common/comm/communicator.h"
#include "common/virtual/engine.h"
#include "common/virtual/transport.h"
#include "kernels/runtime/memory_source.h"
#include "tests/catch.h"
#include "tests/common/virtual/times.h"

namespace ladder {
namespace {

constexpr DeviceType kDevice = DeviceType::emulator;
constexpr double kInside = 0.125, kNetwork = 0.25;  // the compute that they take

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  size_t operator()(size_t least, size_t most) { return least + random_() % (most - least + 1); }
  bool coin() { return (*this)(0, 1) == 1; }

 private:
  std::mt19937 random_;
};

// Inside a node and between nodes another part of the compute is gone.
struct TwoShares : SimpleTimes {
  double compute_taken(Port port) const override {
    return port == Port::network ? kNetwork : kInside;
  }
};

// An operation of several streams, or the work of one.
struct Operation {
  std::vector<size_t> streams = {};
  Port port = Port::compute;
  double seconds = 0;
  bool is_meeting = false;
  std::vector<double> issued = {};  // by stream
  // Of the count: what is left to do, -1 before the operation begins; and when it ended.
  double left = -1, end = -1;
};

// What is to be done, and the order of it on each stream.
struct Plan {
  std::vector<size_t> rank_of;  // each stream
  std::vector<Operation> operations;
};

Plan draw_plan(Draw& draw) {
  Plan plan;
  const size_t num_ranks = draw(1, 4);
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    plan.rank_of.insert(plan.rank_of.end(), draw(1, 4), rank);
  }
  std::vector<double> issued(plan.rank_of.size());
  for (size_t i = draw(1, 30); i > 0; --i) {
    Operation one = {.port = static_cast<Port>(draw(0, kNumPorts - 1)),
                     .seconds = 0.25 * static_cast<double>(draw(1, 20))};
    one.is_meeting = one.port == Port::inside || one.port == Port::network;
    std::set<size_t> ranks;
    for (size_t j = one.is_meeting ? draw(1, num_ranks) : 1; j > 0; --j) {
      const size_t stream = draw(0, plan.rank_of.size() - 1);
      if (ranks.insert(plan.rank_of[stream]).second) one.streams.push_back(stream);
    }
    for (const size_t stream : one.streams) {
      issued[stream] += 0.5 * static_cast<double>(draw(0, 3));
      one.issued.push_back(issued[stream]);
    }
    plan.operations.push_back(one);
  }
  return plan;
}

// Counts second by second, or rather from one end or beginning to the next: what runs on a rank
// shares each port evenly, a meeting is as fast as on its slowest rank, and computation has what
// the greediest kind of communication leaves it.
void count(Plan& plan) {
  std::vector<Operation>& all = plan.operations;
  const auto is_first = [&](size_t i) {  // on all of its streams
    return std::ranges::all_of(all[i].streams, [&](size_t stream) {
      for (size_t j = 0; j < i; ++j) {
        const auto& its = all[j].streams;
        if (all[j].end < 0 && std::ranges::find(its, stream) != its.end()) return false;
      }
      return true;
    });
  };
  double now = 0;
  while (std::ranges::any_of(all, [](const Operation& one) { return one.end < 0; })) {
    double next = 1e30;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].end >= 0 || all[i].left >= 0 || !is_first(i)) continue;
      const double from = *std::ranges::max_element(all[i].issued);
      if (from <= now) {
        all[i].left = all[i].seconds;
      } else {
        next = std::min(next, from);
      }
    }
    const auto users = [&](size_t rank, Port port) {
      double sum = 0;
      for (const Operation& one : all) {
        if (one.left < 0 || one.end >= 0 || one.port != port) continue;
        for (const size_t stream : one.streams) sum += plan.rank_of[stream] == rank;
      }
      return sum;
    };
    std::vector<double> rates(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].left < 0 || all[i].end >= 0) continue;
      rates[i] = 1;
      for (const size_t stream : all[i].streams) {
        const size_t rank = plan.rank_of[stream];
        double rate = 1 / users(rank, all[i].port);
        if (all[i].port == Port::compute) {
          rate *= 1 - (users(rank, Port::network) > 0  ? kNetwork
                       : users(rank, Port::inside) > 0 ? kInside
                                                       : 0);
        }
        rates[i] = std::min(rates[i], rate);
      }
      next = std::min(next, now + all[i].left / rates[i]);
    }
    for (size_t i = 0; i < all.size(); ++i) {
      if (rates[i] == 0) continue;
      all[i].left -= rates[i] * (next - now);
      if (all[i].left < 1e-9) all[i].end = next;
    }
    now = next;
  }
}

TEST_CASE("Whatever runs at the same time, each operation ends when a count by hand says") {
  Draw draw(1);
  const TwoShares times;
  for (size_t round = 0; round < 300; ++round) {
    Plan plan = draw_plan(draw);
    Devices devices(times, plan.rank_of.back() + 1);
    std::vector<Devices::StreamId> ids;
    for (const size_t rank : plan.rank_of) ids.push_back(devices.add_stream(rank));
    std::vector<std::string> names;
    for (size_t i = 0; i < plan.operations.size(); ++i) names.push_back(std::to_string(i));
    for (size_t i = 0; i < plan.operations.size(); ++i) {
      const auto& [streams, port, seconds, is_meeting, issued, left, end] = plan.operations[i];
      const char* const name = names[i].c_str();
      const auto meeting =
          is_meeting ? devices.make_meeting(name, port, seconds, streams.size()) : 0;
      for (size_t j = 0; j < streams.size(); ++j) {
        if (is_meeting) {
          devices.add_meeting(ids[streams[j]], issued[j], meeting);
        } else {
          devices.add_work(ids[streams[j]], issued[j], name, port, seconds);
        }
      }
    }
    count(plan);
    size_t num_ends = 0, expected = 0;
    for (const Operation& one : plan.operations) expected += one.streams.size();
    devices.observer = [&](const DeviceSpan& span) {
      CAPTURE(round, span.name, span.rank);
      CHECK(span.end == Approx(plan.operations[std::stoul(span.name)].end).epsilon(1e-9));
      ++num_ends;
    };
    while (devices.advance()) {
    }
    CHECK(num_ends == expected);
  }
}

// Times that tell which ranks of the world took part, and in which order.
struct TellingTimes : SimpleTimes {
  static double telling(Collective collective, const std::vector<size_t>& ranks, size_t bytes) {
    double sum = static_cast<double>(static_cast<size_t>(collective) + 10 * bytes);
    for (size_t i = 0; i < ranks.size(); ++i) {
      sum += 1e-3 * std::sqrt(static_cast<double>((i + 1) * (7 * ranks[i] + 1)));
    }
    return sum;
  }
  double collective_seconds(Collective collective, const std::vector<size_t>& ranks,
                            size_t bytes) const override {
    return telling(collective, ranks, bytes);
  }
  double message_seconds(size_t from, size_t to, size_t bytes) const override {
    return telling(Collective::send, {from, to}, bytes);
  }
  // Three ranks are a node.
  Port port_between(const std::vector<size_t>& ranks) const override {
    for (const size_t rank : ranks) {
      if (rank / 3 != ranks.front() / 3) return Port::network;
    }
    return Port::inside;
  }
};

// A rank's place on an axis, by the formula in process_grid.h.
size_t place_on(Axis axis, size_t rank, const ProcessGrid& grid) {
  if (axis == Axis::tensor) return rank % grid.tensor_size;
  if (axis == Axis::context) return rank / grid.tensor_size % grid.context_size;
  const size_t row = rank / grid.tensor_size / grid.context_size;
  return axis == Axis::data ? row % grid.data_size : row / grid.data_size;
}

// The ranks that differ from this one on the axis alone; all of them for the world.
std::vector<size_t> group_of(Axis axis, size_t rank, const ProcessGrid& grid) {
  std::vector<size_t> ranks;
  for (size_t other = 0; other < grid.world_size(); ++other) {
    const bool is_near = std::ranges::all_of(kGridAxes, [&](Axis each) {
      return each == axis || place_on(each, other, grid) == place_on(each, rank, grid);
    });
    if (is_near || axis == Axis::world) ranks.push_back(other);
  }
  return ranks;
}

// What all ranks do at the same time, each with its own group along the axis.
struct Phase {
  Axis axis = Axis::world;
  Collective collective = Collective::all_reduce;
  size_t elements = 0, from = 0, to = 0;  // the last two: group ranks of a message
};

void take_part(const Phase& phase, Communicator& group, Stream& stream) {
  const auto view = [](size_t elements) {
    return TensorView(no_memory().allocate(4 * elements), DType::fp32, kDevice, {elements});
  };
  const size_t n = phase.elements, all = n * group.size();
  const CallOptions options = {.purpose = Purpose::gradient};
  switch (phase.collective) {
    case Collective::all_reduce:
      return group.all_reduce(stream, view(n), options).wait(stream);
    case Collective::reduce_scatter:
      return group.reduce_scatter(stream, view(n), view(all), options).wait(stream);
    case Collective::all_gather:
      return group.all_gather(stream, view(all), view(n), options).wait(stream);
    case Collective::all_to_all:
      return group.all_to_all(stream, view(all), view(all), options).wait(stream);
    case Collective::broadcast:
      return group.broadcast(stream, view(n), phase.from, options).wait(stream);
    default:
      if (group.rank() == phase.from) group.send(stream, view(n), phase.to, options).wait(stream);
      if (group.rank() == phase.to) group.recv(stream, view(n), phase.from, options).wait(stream);
  }
}

std::vector<Phase> draw_phases(Draw& draw, const ProcessGrid& grid) {
  std::vector<Phase> phases;
  while (phases.size() < 12) {
    constexpr std::array kAxes = {Axis::world, Axis::pipeline, Axis::data, Axis::context,
                                  Axis::tensor};
    constexpr std::array kCollectives = {Collective::all_reduce, Collective::reduce_scatter,
                                         Collective::all_gather, Collective::all_to_all,
                                         Collective::broadcast,  Collective::send};
    Phase phase = {kAxes.at(draw(0, 4)), kCollectives.at(draw(0, 5)), draw(1, 50)};
    const size_t size = group_of(phase.axis, 0, grid).size();
    if (size == 1) continue;
    phase.from = draw(0, size - 1);
    phase.to = (phase.from + draw(1, size - 1)) % size;
    phases.push_back(phase);
  }
  return phases;
}

TEST_CASE("Groups of random grids communicate between their own ranks of the world, as counted") {
  Draw draw(2);
  const TellingTimes times;
  for (size_t round = 0; round < 60; ++round) {
    ProcessGrid grid = {draw(1, 3), draw(1, 3), draw(1, 2), draw(1, 3)};
    if (grid.world_size() == 1) grid.tensor_size = 2;
    const size_t num_ranks = grid.world_size();
    const std::vector<Phase> phases = draw_phases(draw, grid);
    Engine engine(times, num_ranks);
    std::vector<std::vector<DeviceSpan>> spans(num_ranks);
    engine.set_observer([&](const DeviceSpan& span) { spans[span.rank].push_back(span); });
    std::vector<TrafficEntries> ledgers(num_ranks);
    engine.run([&](size_t rank) {
      ProcessGrid own = grid;
      own.rank = rank;
      Communicator world(std::make_unique<SimulatedTransport>(engine, own, kDevice));
      std::map<Axis, std::unique_ptr<Communicator>> groups;
      for (const Axis axis : kGridAxes) {
        groups[axis] = world.split_axis(axis, own.group(axis).color);
      }
      Stream stream(kDevice);
      for (const Phase& phase : phases) {
        take_part(phase, phase.axis == Axis::world ? world : *groups.at(phase.axis), stream);
        stream.synchronize();
      }
      ledgers[rank] = world.ledger().entries();
    });
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      TrafficEntries expected;
      auto span = spans[rank].begin();
      for (const auto& [axis, collective, elements, from, to] : phases) {
        std::vector<size_t> ranks = group_of(axis, rank, grid);
        const bool is_message = collective == Collective::send;
        const bool sends = is_message && ranks[from] == rank;
        if (is_message && !sends && ranks[to] != rank) continue;
        const bool is_whole = collective == Collective::all_reduce ||
                              collective == Collective::broadcast || is_message;
        const size_t bytes = 4 * elements * (is_whole ? 1 : ranks.size());
        expected[{Purpose::gradient, is_message && !sends ? Collective::recv : collective, axis}] +=
            {.calls = 1, .payload_bytes = bytes};
        if (is_message) ranks = {ranks[from], ranks[to]};
        CAPTURE(round, rank, name_of(axis), name_of(collective), ranks, bytes);
        REQUIRE(span != spans[rank].end());
        CHECK(span->end - span->begin ==
              Approx(TellingTimes::telling(collective, ranks, bytes)).epsilon(1e-12));
        CHECK(span->port == times.port_between(ranks));
        ++span;
      }
      CHECK(span == spans[rank].end());
      CHECK(ledgers[rank] == expected);
    }
  }
}

}  // namespace
}  // namespace ladder
