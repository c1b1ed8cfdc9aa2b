// Prints a line for each of many runs of the lessons on the virtual device: hashes of what a step
// launches, and its memory. Lines that are the same for two trees mean the same kernels on the same
// tensors in the same order, the same communication, and the same memory.
//   launches [COUNT]: so many of the runs that tests/lessons/drawn_runs.h draws (default 400)
// tools/golden_bits --launches compares two trees. A run whose ranks wait for each other for ever,
// or that fails in another way, has its error in the place of the hashes.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "common/train/flags/inputs.h"
#include "common/train/program/prediction.h"
#include "common/train/run/simulated_rank.h"
#include "common/virtual/lazy_memory.h"
#include "kernels/runtime/hash.h"
#include "tests/lessons/all_trainers.h"
#include "tests/lessons/drawn_runs.h"

namespace ladder::testing {
namespace {

// Times that follow from costs by plain formulas, so that they tell different costs apart. They do
// not depend on any description of a real device.
class PlainTimes final : public TimeModel {
 public:
  explicit PlainTimes(DeviceType device) : device_(device) {}
  DeviceType device() const override { return device_; }
  double kernel_seconds(DeviceType, const KernelCall& call) const override {
    return 1e-6 + 1e-11 * (call.cost.product_flops + call.cost.other_flops + call.cost.bytes());
  }
  double copy_seconds(DeviceType, DeviceType, size_t bytes) const override {
    return 2e-6 + 1e-10 * number_of(bytes);
  }
  double launch_seconds() const override { return 1e-7; }
  double collective_seconds(Collective collective, const std::vector<size_t>& ranks,
                            size_t bytes) const override {
    return (3e-6 + 1e-10 * number_of(bytes)) * number_of(ranks.size()) *
           (1 + number_of(static_cast<size_t>(collective)));
  }
  double message_seconds(size_t, size_t, size_t bytes) const override {
    return 4e-6 + 1e-10 * number_of(bytes);
  }
  Port port_between(const std::vector<size_t>&) const override { return Port::inside; }
  double compute_taken(Port) const override { return 0.1; }

 private:
  DeviceType device_;
};

// The hash of what one rank does.
class Log {
 public:
  template <class T>
  void add(const T& value) requires(std::has_unique_object_representations_v<T>) {
    hash_ = hash_bytes(std::as_bytes(std::span(&value, 1)), hash_);
  }
  void add(double value) { add(std::bit_cast<uint64_t>(value)); }
  void add(std::string_view text) { hash_ = hash_bytes(std::as_bytes(std::span(text)), hash_); }
  // Of a tensor counts its shape, and which it is: the number of the addresses that were new when
  // this one was. So it does not matter in which order memory was allocated.
  void add(ConstTensorView view) {
    add(numbers_.try_emplace(view.data(), numbers_.size()).first->second);
    if (view.empty()) return;
    add(static_cast<size_t>(view.dtype()));
    for (size_t i = 0; i < view.shape().num_dims(); ++i) add(view.shape()[i]);
    if (view.shape().num_dims() > 0) add(view.pitch());
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0;
  std::map<const void*, size_t> numbers_;
};

void add_launch(Log& log, Simulation::StreamId stream, const KernelCall& call) {
  log.add(stream);
  log.add(std::string_view(call.name));
  log.add(static_cast<size_t>(call.dtype));
  const Cost& cost = call.cost;
  for (double number :
       {cost.product_flops, cost.other_flops, cost.bytes_read, cost.bytes_written}) {
    log.add(number);
  }
  for (size_t number : {cost.m, cost.n, cost.k, size_t{cost.transpose_b}}) log.add(number);
  for (const ConstTensorView& view : call.arguments) log.add(view);
}

void add_span(Log& log, const DeviceSpan& span) {
  log.add(std::string_view(span.name));
  log.add(static_cast<size_t>(span.port));
  log.add(span.begin);
  log.add(span.end);
}

void add_state(Log& log, const SimulatedRank& rank, const Communicator& world) {
  for (const Memory* memory : {&rank.device, &rank.host}) {
    for (size_t bytes : memory->peak().bytes) log.add(bytes);
  }
  for (const auto& [key, traffic] : world.ledger().entries()) {
    log.add(traffic.calls);
    log.add(traffic.payload_bytes);
  }
}

// Returns the hashes of a step: of what ranks launch, of what runs when, and of memory and traffic.
std::string hashes_of(const Program& program, const RunConfig& config, size_t num_ranks) {
  const PlainTimes times(config.device);
  const Corpus corpus = open_corpus(config);
  Engine engine(times, num_ranks);
  LazyMemory host_memory;
  std::vector<std::unique_ptr<SimulatedRank>> ranks;
  std::vector<Log> launches(num_ranks), spans(num_ranks), states(num_ranks);
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    ranks.push_back(
        std::make_unique<SimulatedRank>(config, program.grid(num_ranks, rank), host_memory));
  }
  engine.set_launch_observer([&](size_t rank, Simulation::StreamId stream, const KernelCall& call) {
    add_launch(launches[rank], stream, call);
  });
  engine.set_observer([&](const DeviceSpan& span) { add_span(spans[span.rank], span); });
  engine.run([&](size_t number) {
    run_simulated_rank(program, config, corpus, engine, *ranks[number],
                       [&](const TrainerContext& context, Communicator& world) {
                         const auto trainer = program.make(context);
                         trainer->step();
                         context.stream.synchronize();
                         add_state(states[number], *ranks[number], world);
                       });
  });
  std::string text;
  for (const std::vector<Log>* logs : {&launches, &spans, &states}) {
    Log all;
    for (const Log& log : *logs) all.add(log.hash());
    char hash[24];
    std::snprintf(hash, sizeof hash, " %016lx", all.hash());
    text += hash;
  }
  return text;
}

// Half of the runs are on a CPU with the drawn dtype, the others on a GPU in bf16.
void vary(DrawnRun& run, size_t number) {
  if (number % 2 == 0) return;
  for (std::string& flag : run.flags) {
    if (flag == "fp64") flag = "bf16";
  }
}

// Returns the line of a run; nothing if its lesson refuses it.
std::optional<std::string> line_of(const DrawnRun& run, size_t number) {
  const Program program = of_trainer(run.lesson, []<class T>() { return make_program<T>(); });
  try {
    RunConfig config = resolve_flags(program, run.flags, run.num_ranks);
    if (number % 2 == 1) config.device = DeviceType::emulator;
    const Program planned = program.planned(config, program.grid(run.num_ranks, 0));
    for (size_t rank = 0; rank < run.num_ranks; ++rank) {
      predict(planned, config, program.grid(run.num_ranks, rank));
    }
    return concat(number, hashes_of(planned, config, run.num_ranks), " ", run.text(), "\n");
  } catch (const UserError&) {
    return std::nullopt;
  } catch (const Error& error) {
    return concat(number, " ", error.what(), " ", run.text(), "\n");
  }
}

std::string drawn_line(size_t number) {
  constexpr uint32_t kMostAttempts = 100;
  for (uint32_t attempt = 0; attempt < kMostAttempts; ++attempt) {
    DrawnRun run = draw_run(static_cast<uint32_t>(number), attempt);
    vary(run, number);
    if (const auto line = line_of(run, number)) return *line;
  }
  fail(concat("no run of number ", number));
}

// Runs of the lessons that are not drawn.
std::string further_lines() {
  const std::vector<std::pair<std::string, std::vector<std::string>>> runs = {
      {"01_single_gpu", {"--micro-batch-size", "8"}},
      {"01_single_gpu", {"--recompute", "every-2", "--micro-batch-size", "24"}},
      {"11_activation_checkpointing", {"--micro-batch-size", "8", "--recompute", "whole"}},
      {"11_activation_checkpointing", {"--activation-memory", "8MiB", "--micro-batch-size", "12"}},
      {"17_elastic", {"--micro-batch-size", "3", "--tensor-parallel-size", "2"}}};
  std::string lines;
  for (size_t number : {0, 1}) {
    for (const auto& [lesson, flags] : runs) {
      DrawnRun run = {.lesson = lesson,
                      .num_ranks = lesson == "17_elastic" ? size_t{4} : size_t{1},
                      .flags = flags,
                      .connection = {}};
      for (const char* flag : {"--global-batch-size", "24", "--layers", "4", "--sequence-length",
                               "16", "--dtype", "fp64"}) {
        run.flags.emplace_back(flag);
      }
      vary(run, number);
      lines += line_of(run, number).value_or(concat("refused: ", run.text(), "\n"));
    }
  }
  return lines;
}

}  // namespace
}  // namespace ladder::testing

int main(int argc, char** argv) {
  const size_t count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 400;
  for (size_t number = 1; number <= count; ++number) {
    std::fputs(ladder::testing::drawn_line(number).c_str(), stdout);
  }
  std::fputs(ladder::testing::further_lines().c_str(), stdout);
  return 0;
}
