#include "common/train/run/virtual_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/cluster/cluster_text.h"
#include "common/cluster/comm_time.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/io/standard_streams.h"
#include "common/train/flags/inputs.h"
#include "common/train/flags/named_files.h"
#include "common/train/report/breakdown.h"
#include "common/train/report/progress.h"
#include "common/train/report/report.h"
#include "common/train/report/timeline.h"
#include "common/train/report/trace.h"
#include "common/train/report/unit_times.h"
#include "common/train/run/pass_waits.h"
#include "common/train/run/simulated_rank.h"
#include "common/train/trainer/full_tensors.h"
#include "common/virtual/cluster_times.h"
#include "common/virtual/lazy_memory.h"

namespace ladder {
namespace {

// What is known of one rank.
struct Rank : SimulatedRank {
  using SimulatedRank::SimulatedRank;
  TrafficEntries traffic;
  double step_seconds = 0, product_flops = 0;
  std::optional<Trace> trace;
  std::optional<UnitTimes> units;
};

Time time_of(double seconds) {
  return Time(std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds)));
}

}  // namespace

struct VirtualRun::State {
  State(const Program& program_, const RunConfig& config_, const Cluster& cluster, size_t num_ranks,
        bool breakdown_)
      : program(program_),
        config(config_),
        shows_breakdown(breakdown_),
        corpus(open_corpus(config)),
        times(cluster, num_ranks),
        engine(times, num_ranks),
        breakdown(num_ranks) {}

  void run_rank(size_t number);
  void take_step(Rank& rank, const TrainerContext& context, const Communicator& world);
  void observe(const DeviceSpan& span);
  void observe_units(Rank& rank, Stream& stream);
  bool is_drawn(const Rank& rank) const;
  void observe(Rank& rank, const UnitTime& work);
  SimulatedStep result() const;

  Program program;  // planned
  RunConfig config;
  bool shows_breakdown;
  Corpus corpus;
  ClusterTimes times;
  Engine engine;
  Breakdown breakdown;
  LazyMemory host_memory;
  std::vector<std::unique_ptr<Rank>> ranks;
  SimulatedStep step;
  size_t out_of_memory = 0;  // the rank that has none left
};

VirtualRun::VirtualRun(const Program& program, const RunConfig& config, const Cluster& cluster,
                       size_t num_ranks, bool breakdown) {
  check_devices(cluster, num_ranks);
  check_dtype(cluster, config.dtype);
  state_ = std::make_unique<State>(program, config, cluster, num_ranks, breakdown);
  State& s = *state_;
  check_distinct(s.config, s.corpus);
  s.config.simulated = concat("virtual: ", cluster.device, " ", name_and_program(cluster));
  if (s.config.device_memory == 0) s.config.device_memory = cluster.device_memory;
  s.config.peak_flops = cluster.product_flops[static_cast<size_t>(config.dtype)] *
                        cluster.num_peaks(num_ranks) / number_of(num_ranks);
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    s.ranks.push_back(
        std::make_unique<Rank>(s.config, program.grid(num_ranks, rank), s.host_memory));
  }
  s.program = program.planned(s.config, s.ranks.front()->grid);
  s.engine.set_observer([&s](const DeviceSpan& span) { s.observe(span); });
}

VirtualRun::~VirtualRun() = default;

std::string VirtualRun::header() const {
  const State& s = *state_;
  const ProcessGrid& grid = s.ranks.front()->grid;
  const NeededMemory needed = memory_of_stages(s.program, s.config, s.ranks.size());
  const std::string text =
      header_text(s.program.lesson, s.config, grid, s.corpus, needed, "simulated") +
      s.program.header(s.config, grid) +
      assumptions(s.times.cluster(), s.ranks.size(), s.config.dtype);
  const auto flag = s.config.flags.find("--reduce-dtype");
  const bool has_flag = flag != s.config.flags.end();
  if (s.ranks.size() == 1 || (has_flag && !flag->second.is_default)) return text;
  return text + assumption(concat("gradients are summed in ", name_of(s.config.accumulation())),
                           has_flag ? "--reduce-dtype" : "lesson 10's --reduce-dtype");
}

SimulatedStep VirtualRun::run(std::function<void()> watch) {
  State& s = *state_;
  s.engine.set_watch(std::move(watch));
  try {
    s.engine.run([&s](size_t number) { s.run_rank(number); });
  } catch (const OutOfMemory& error) {
    const Prediction prediction =
        predict_memory(s.program, s.config, s.ranks[s.out_of_memory]->grid);
    throw Error(concat("rank ", s.out_of_memory, ": ", error.what(), "\n",
                       out_of_memory_text(error, s.config, prediction)));
  }
  s.step = s.result();
  if (s.step.seconds > 0) return s.step;
  throw UserError("a step takes no time; a number of the cluster or the program must be wrong");
}

void VirtualRun::State::run_rank(size_t number) {
  Rank& rank = *ranks[number];
  run_simulated_rank(program, config, corpus, engine, rank,
                     [&](const TrainerContext& context, Communicator& world) {
                       const FullTensors full_tensors(rank.host, describe(config.model),
                                                      config.accumulation(), world);
                       take_step(rank, context, world);
                     });
}

void VirtualRun::State::take_step(Rank& rank, const TrainerContext& context,
                                  const Communicator& world) {
  const size_t number = rank.grid.rank;
  try {
    const auto trainer = program.make(context);
    const Time begin = Clock::now();
    if (!config.trace.empty() || is_drawn(rank)) rank.trace.emplace();
    if (shows_breakdown || rank.trace) observe_units(rank, context.stream);
    std::optional<PassWaits> waits;
    if (times.cluster().program.host_waits_for_passes) waits.emplace(context.stream);
    trainer->step();
    context.stream.synchronize();
    if (rank.units) rank.units->finish();
    rank.step_seconds = seconds_since(begin);
    rank.product_flops = engine.product_flops(number);
    rank.traffic = world.ledger().entries();
    for (auto& [key, traffic] : rank.traffic) traffic.by_formula = true;  // nothing has moved
  } catch (const OutOfMemory&) {
    out_of_memory = number;
    throw;
  }
}

void VirtualRun::State::observe(const DeviceSpan& span) {
  breakdown.add(span);
  Rank& rank = *ranks[span.rank];
  if (rank.units && span.port == Port::compute) rank.units->add(span);
  if (!rank.trace) return;
  const bool computes = span.port == Port::compute || span.port == Port::host;
  // A drawing has no room for a device's kernels. The host has no units, and little to do.
  if (span.port == Port::compute && config.trace.empty()) return;
  rank.trace->add(computes ? Trace::Lane::compute : Trace::Lane::communication, span.name,
                  time_of(span.begin), time_of(span.end));
}

void VirtualRun::State::observe_units(Rank& rank, Stream& stream) {
  const bool host_waits = times.device() == DeviceType::cpu;
  rank.units.emplace(host_waits ? 0 : times.launch_seconds(),
                     [this, &rank](const UnitTime& work) { observe(rank, work); });
  stream.set_observer(&*rank.units);
}

void VirtualRun::State::observe(Rank& rank, const UnitTime& work) {
  breakdown.add(work);
  if (!rank.trace) return;
  rank.trace->add(Trace::Lane::compute, work.name, time_of(work.begin), time_of(work.end));
}

bool VirtualRun::State::is_drawn(const Rank& rank) const {
  constexpr size_t kMostDrawn = 16;
  if (config.draw.empty()) return false;
  if (ranks.size() <= kMostDrawn) return true;
  const auto is_first = [&](Axis axis) { return rank.grid.group_rank(axis) == 0; };
  return is_first(Axis::data) && is_first(Axis::context) && is_first(Axis::tensor);
}

SimulatedStep VirtualRun::State::result() const {
  SimulatedStep taken;
  double flops = 0;
  for (const auto& rank : ranks) {
    taken.seconds = std::max(taken.seconds, rank->step_seconds);
    flops += rank->product_flops;
    const bool is_fuller =
        rank->device.peak().total() > ranks[taken.fullest]->device.peak().total();
    if (is_fuller) taken.fullest = rank->grid.rank;
  }
  taken.device = ranks[taken.fullest]->device.peak();
  taken.host = ranks[taken.fullest]->host.peak();
  taken.tokens_per_second = tokens_per_second(config, 1e3 * taken.seconds);
  const auto utilization = flops_utilization(config, ranks.size(), taken.tokens_per_second);
  taken.model_utilization = utilization.value_or(0);
  const double peak = config.peak_flops * static_cast<double>(ranks.size());
  taken.hardware_utilization = flops / (peak * taken.seconds);
  return taken;
}

std::string VirtualRun::report(const std::string& other_networks) const {
  const State& s = *state_;
  std::string text = format("\n  simulated step %.3f ms, %s tokens/s, MFU %.1f %%, HFU %.1f %%\n",
                            1e3 * s.step.seconds,
                            with_commas(static_cast<uint64_t>(s.step.tokens_per_second)).c_str(),
                            100 * s.step.model_utilization, 100 * s.step.hardware_utilization);
  text += other_networks;
  text +=
      "  Times are the cluster's model, not measured. Losses and norms have no value here.\n"
      "  MFU counts the model's formula, 6 N + 12 L C T for a token; tables that are only looked "
      "up\n"
      "  are not in N. HFU counts the products that were called: recomputed ones too, and of\n"
      "  attention only the pairs that it looks at.\n";
  if (!s.config.model.frozen.empty()) {
    text += "  Neither counts what backward leaves out of what is frozen.\n";
  }
  text += s.breakdown.kinds_text(s.step.seconds);
  if (s.shows_breakdown) {
    text += s.breakdown.units_text(s.step.seconds) + s.breakdown.names_text(s.step.seconds);
  }
  const Rank& rank = *s.ranks[s.step.fullest];
  if (rank.grid.rank != 0) text += concat("\n  rank ", rank.grid.rank, ", which needs the most:\n");
  const Prediction prediction = predict(s.program, s.config, rank.grid);
  return text + memory_table(prediction, rank.device, rank.host) +
         communication_table(prediction, rank.traffic, rank.grid, 1, 0, {});
}

std::string VirtualRun::drawing() const { return timeline(drawn_trace(), 1); }

std::string VirtualRun::drawn_trace() const {
  const State& s = *state_;
  std::string events;
  for (const auto& rank : s.ranks) {
    if (!s.is_drawn(*rank)) continue;
    const std::string own = rank->trace->json(rank->grid.rank, s.ranks.size());
    events += concat(events.empty() ? "" : ",\n", own);
  }
  return concat("{\"traceEvents\": [", events, "]}");
}

void VirtualRun::write_trace(PartialFile& file) const {
  TraceWriter writer(file);
  const auto& ranks = state_->ranks;
  for (const auto& rank : ranks) writer.add(rank->trace->json(rank->grid.rank, ranks.size()));
  writer.finish();
}

namespace {

// Returns a line that says what the step is at half and twice the rate of the network that is
// assumed, or of the links in the only node; nothing where ranks do not communicate, or where it
// was measured how long that takes.
std::string other_networks(const Program& program, RunConfig config, const Cluster& cluster,
                           size_t num_ranks) {
  const bool is_one_node = num_ranks <= cluster.devices_per_node;
  if (num_ranks == 1 || (is_one_node && !cluster.collectives.empty())) return "";
  config.trace.clear();
  config.draw.clear();
  const auto milliseconds = [&](double factor) {
    const Cluster other = with_network(cluster, factor, num_ranks);
    return 1e3 * VirtualRun(program, config, other, num_ranks).run().seconds;
  };
  const double half = milliseconds(0.5), twice = milliseconds(2);
  return format("  at half the %s's rate %.3f ms, at twice %.3f ms\n",
                is_one_node ? "node link" : "network", half, twice);
}

}  // namespace

void run_virtual(const Program& program, Options& options, const Job& job) {
  if (job.size() > 1) {
    throw UserError("--device virtual: one process runs all ranks; give --ranks, not mpirun -n");
  }
  const VirtualFlags& flags = options.virtual_flags();
  flags.check(true);
  const Cluster cluster = read_cluster(flags.cluster, flags.program);
  const size_t all = program.lesson.is_distributed ? cluster.num_devices() : 1;
  const size_t num_ranks = flags.num_ranks > 0 ? flags.num_ranks : all;
  check_devices(cluster, num_ranks);
  RunConfig config = options.resolve(program.grid(num_ranks, 0));
  config.machine_of = cluster.machine_of(num_ranks);
  if (program.adjust) program.adjust(config);
  VirtualRun run(program, config, cluster, num_ranks, flags.breakdown);
  std::optional<PartialFile> trace, drawing;
  if (!config.trace.empty()) named_by("--trace", [&] { trace.emplace(config.trace); });
  if (!config.draw.empty()) named_by("--draw", [&] { drawing.emplace(config.draw); });
  options.save(config);
  print(run.header());
  const std::string others =
      flags.fixed_network ? "" : other_networks(program, config, cluster, num_ranks);
  run.run();
  if (trace) named_by("--trace", [&] { run.write_trace(*trace); });
  if (drawing) {
    named_by("--draw", [&] {
      drawing->write(run.drawing());
      drawing->commit();
    });
  }
  print(run.report(others));
}

}  // namespace ladder
