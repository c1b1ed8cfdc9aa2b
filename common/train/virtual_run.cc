#include "common/train/virtual_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "common/cluster/cluster.h"
#include "common/io/printable.h"
#include "common/io/standard_streams.h"
#include "common/train/breakdown.h"
#include "common/train/full_tensors.h"
#include "common/train/inputs.h"
#include "common/train/progress.h"
#include "common/train/ranks.h"
#include "common/train/report.h"
#include "common/train/trace.h"
#include "common/virtual/cluster_times.h"
#include "common/virtual/transport.h"

namespace ladder {
namespace {

// The first step begins with empty queues, so the second one is reported.
constexpr int kSteps = 2;

ProcessGrid grid_of(const Program& program, size_t num_ranks, size_t rank) {
  return program.arrange ? program.arrange(num_ranks, rank)
                         : ProcessGrid{.data_size = num_ranks, .rank = rank};
}

// What is known of one rank.
struct Rank {
  Rank(const RunConfig& config, const ProcessGrid& grid_)
      : grid(grid_),
        device(config.device, "device", config.device_memory, no_memory()),
        host(DeviceType::cpu, "host", config.host_memory, no_memory()) {}

  ProcessGrid grid;
  Memory device, host;
  TrafficEntries traffic;
  double step_seconds = 0, product_flops = 0;
  std::optional<Trace> trace;
};

class VirtualRun {
 public:
  VirtualRun(const Program& program, const RunConfig& config, const Cluster& cluster,
             size_t num_ranks)
      : program_(program),
        config_(config),
        corpus_(open_corpus(config)),
        times_(cluster, num_ranks),
        engine_(times_, num_ranks),
        breakdown_(num_ranks) {
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(config, grid_of(program, num_ranks, rank)));
    }
    engine_.set_observer([this](const Span& span) { observe(span); });
  }

  std::string header(const std::string& communication) const;
  void run();
  std::string report(bool breakdown) const;
  void write_trace() const;

 private:
  void run_rank(size_t number);
  void take_steps(Rank& rank, const TrainerContext& context, const Communicator& world);
  void observe(const Span& span);
  const Rank& fullest() const;

  const Program& program_;
  const RunConfig& config_;
  Corpus corpus_;
  ClusterTimes times_;
  Engine engine_;
  Breakdown breakdown_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  size_t out_of_memory_ = 0;  // the rank that has none left
};

std::string VirtualRun::header(const std::string& communication) const {
  // The stages of a pipeline differ in what they need, and little else does.
  NeededMemory needed;
  const ProcessGrid& grid = ranks_.front()->grid;
  for (size_t stage = 0; stage < grid.pipeline_size; ++stage) {
    const size_t rank = grid.rank_at(Axis::pipeline, stage);
    const Prediction prediction = predict(program_, config_, ranks_[rank]->grid);
    if (prediction.device.total() > needed.device.total()) {
      needed.device = prediction.device;
      needed.device_rank = rank;
    }
    if (prediction.host.total() > needed.host.total()) {
      needed.host = prediction.host;
      needed.host_rank = rank;
    }
  }
  return header_text(program_.lesson, config_, grid, corpus_, needed, communication) +
         (program_.describe ? program_.describe(config_, grid) : "");
}

void VirtualRun::run() {
  try {
    engine_.run([this](size_t number) { run_rank(number); });
  } catch (const OutOfMemory& error) {
    const Prediction prediction = predict(program_, config_, ranks_[out_of_memory_]->grid);
    throw Error(concat("rank ", out_of_memory_, ": ", error.what(), "\n",
                       out_of_memory_text(error, config_, prediction)));
  }
}

void VirtualRun::run_rank(size_t number) {
  Rank& rank = *ranks_[number];
  Stream stream(config_.device);
  Communicator world(std::make_unique<SimulatedTransport>(engine_, rank.grid, config_.device));
  std::optional<GridGroups> groups;
  if (program_.arrange) groups.emplace(world, rank.grid);
  const RankContext context = {rank.grid, world, groups ? &*groups : nullptr, &no_memory()};
  const FullTensors full_tensors(rank.host, describe(config_.model), config_.accumulation(), world);
  take_steps(rank,
             {.config = config_,
              .corpus = corpus_,
              .device_memory = rank.device,
              .host_memory = rank.host,
              .stream = stream,
              .ranks = &context},
             world);
}

void VirtualRun::take_steps(Rank& rank, const TrainerContext& context, const Communicator& world) {
  const size_t number = rank.grid.rank;
  try {
    const TrainerCalls trainer = program_.make(context);
    for (int step = 1; step <= kSteps; ++step) {
      const Time begin = Clock::now();
      const double flops = engine_.product_flops(number);
      if (step == kSteps) {
        breakdown_.begin(number, seconds_between(Time(), begin));
        if (!config_.trace.empty()) rank.trace.emplace();
      }
      trainer.step();
      context.stream.synchronize();
      rank.step_seconds = seconds_since(begin);
      rank.product_flops = engine_.product_flops(number) - flops;
    }
    rank.traffic = world.ledger().entries();
  } catch (const OutOfMemory&) {
    out_of_memory_ = number;
    throw;
  }
}

void VirtualRun::observe(const Span& span) {
  breakdown_.add(span);
  Rank& rank = *ranks_[span.rank];
  if (!rank.trace) return;
  const auto at = [](double seconds) {
    return Time(std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds)));
  };
  const bool computes = span.port == Port::compute || span.port == Port::host;
  rank.trace->add(computes ? Trace::Lane::compute : Trace::Lane::communication, span.name,
                  at(span.begin), at(span.end));
}

const Rank& VirtualRun::fullest() const {
  return **std::ranges::max_element(ranks_, {},
                                    [](const auto& rank) { return rank->device.peak().total(); });
}

std::string VirtualRun::report(bool breakdown) const {
  double seconds = 0, flops = 0;
  for (const auto& rank : ranks_) {
    seconds = std::max(seconds, rank->step_seconds);
    flops += rank->product_flops;
  }
  const double rate = tokens_per_second(config_, 1e3 * seconds);
  const double peak = config_.peak_flops * static_cast<double>(ranks_.size());
  std::string text = format("\n  simulated step %.3f ms, %s tokens/s, MFU %.1f %%, HFU %.1f %%\n",
                            1e3 * seconds, with_commas(static_cast<uint64_t>(rate)).c_str(),
                            100 * flops_utilization(config_, ranks_.size(), rate).value_or(0),
                            100 * flops / (peak * seconds));
  text += "  Times are the cluster's model, not measured. Losses and norms have no value here.\n";
  text += breakdown_.kinds_text(seconds);
  if (breakdown) text += breakdown_.names_text(seconds);
  const Rank& rank = fullest();
  if (rank.grid.rank != 0) text += concat("\n  rank ", rank.grid.rank, ", which needs the most:\n");
  const Prediction prediction = predict(program_, config_, rank.grid);
  return text + memory_table(prediction, rank.device, rank.host) +
         communication_table(prediction, rank.traffic, rank.grid, kSteps, 0, {});
}

void VirtualRun::write_trace() const {
  PartialFile file(config_.trace);
  const char* before = "{\"traceEvents\": [\n";
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    file.write(before + ranks_[rank]->trace->json(rank));
    before = ",\n";
  }
  file.write("\n]}\n");
  file.commit();
}

}  // namespace

void run_virtual(const Program& program, const Options& options, const Job& job) {
  if (job.size() > 1) {
    throw UserError("--device virtual: one process runs all ranks; give --ranks, not mpirun -n");
  }
  const VirtualFlags& flags = options.virtual_flags();
  const Cluster cluster = read_cluster(flags.cluster);
  const size_t num_ranks = flags.num_ranks > 0 ? flags.num_ranks : cluster.num_devices();
  check_devices(cluster, num_ranks);
  RunConfig config = options.resolve(grid_of(program, num_ranks, 0));
  VirtualFlags::refuse_values(config);
  if (program.adjust) program.adjust(config);
  config.simulated = concat("virtual: ", cluster.device, " (", one_line(cluster.name), ")");
  if (config.device_memory == 0) config.device_memory = cluster.device_memory;
  config.peak_flops = cluster.product_flops[static_cast<size_t>(config.dtype)];
  config.sample_tokens = 0;
  VirtualRun run(program, config, cluster, num_ranks);
  print(run.header("simulated"));
  run.run();
  if (!config.trace.empty()) run.write_trace();
  print(run.report(flags.breakdown));
}

}  // namespace ladder
