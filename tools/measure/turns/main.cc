// Training steps of GPT-2 124M that take turns, on ranks of one thread:
//   tools/build //tools/measure/turns
//   tools/mpirun -n 2 bazel-bin/tools/measure/turns/turns 06 --tokens 256 --rounds 3
//
//   06    lessons 03 to 06 against 02, a pair at a time
//   09    lessons 07 and 08 against one rank; the pipelines' micro-batches are of one sequence
//   13    lesson 13 against 07
//   16    the schedules of lesson 16 against lesson 08's 1F1B, with micro-batches of one sequence
//
// Trainers that are compared exist at once, so that other programs on the machine disturb all of
// them alike. It prints medians over the rounds: of the slowest rank's milliseconds, and of the
// time as a part of the first trainer's in the same round. For pipelines it adds the bubbles, as
// measured and as the simulator predicts them with the times that were measured. With fewer cores
// than ranks none of this says anything.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "common/train/bench/rank_benchmark.h"
#include "common/train/program/program.h"
#include "kernels/runtime/median.h"
#include "lessons/01_single_gpu/trainer.h"
#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/06_offload/trainer.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/13_sequence_parallel/trainer.h"
#include "lessons/16_pipeline_schedules/trainer.h"

namespace ladder {
namespace {

struct Options {
  std::string lesson;
  std::vector<std::string> schedules = {"1f1b", "interleaved", "zb-h1", "zb-v"};
  std::vector<double> times;
};

// A trainer on the ranks, and what it needs to live. Lesson 01's is on rank 0 alone; the others
// wait, and leave their core idle.
template <class T>
struct Place {
  static constexpr bool kIsAlone = std::is_same_v<T, SingleGpuTrainer>;

  Place(RankBenchmark& ground, size_t micro_batch_size, const typename T::Flags& flags)
      : config(ground.config()) {
    config.micro_batch_size = micro_batch_size;
    const TrainerContext base = ground.context();
    const size_t size = ground.ranks().size(), rank = ground.ranks().rank();
    const Program program = make_program<T>(flags);
    grid = program.grid(size, rank);
    if (program.arrange) groups.emplace(ground.ranks(), grid);
    if (kIsAlone && rank != 0) return;
    ranks.emplace(grid, ground.ranks(), groups ? &*groups : nullptr, base.ranks->registered);
    trainer = program.make({config, base.corpus, base.device_memory, base.host_memory, base.stream,
                            kIsAlone ? nullptr : &*ranks});
    trainer->initialize();
  }

  RunConfig config;
  ProcessGrid grid;
  std::optional<GridGroups> groups;
  std::optional<RankContext> ranks;
  std::unique_ptr<Trainer> trainer;
};

struct Contestant {
  std::string name;
  std::function<void()> step;
  std::function<std::string()> report;  // collective
  std::vector<double> ms = {}, parts = {};
};

template <class T>
Contestant contestant(RankBenchmark& ground, const std::string& name, size_t micro_batch_size,
                      const typename T::Flags& flags = {}) {
  const auto place = std::make_shared<Place<T>>(ground, micro_batch_size, flags);
  const auto step = [place] {
    if (place->trainer) place->trainer->step();
  };
  return {name, step,
          [place]() -> std::string { return place->trainer ? place->trainer->report() : ""; }};
}

void take_turns(RankBenchmark& ground, std::vector<Contestant> contestants) {
  for (size_t round = 0; round <= ground.options().rounds; ++round) {
    for (Contestant& each : contestants) {
      const double ms = ground.ms_of(each.step);
      if (round == 0) continue;  // touches the memory
      each.ms.push_back(ms);
      each.parts.push_back(ms / contestants[0].ms.back());
    }
  }
  for (const Contestant& each : contestants) {
    const std::string report = each.report();
    if (ground.ranks().rank() != 0) continue;
    const double part = median(each.parts);
    std::printf("%-34s %8.0f ms, %.3f of the first: %.3f times as fast%s\n", each.name.c_str(),
                median(each.ms), part, 1 / part, report.c_str());
    std::fflush(stdout);
  }
}

template <class T>
void against_ddp(RankBenchmark& ground, const std::string& name,
                 const typename T::Flags& flags = {}) {
  const size_t micro_batch = ground.config().micro_batch_size;
  take_turns(ground, {contestant<DdpTrainer>(ground, "02_ddp", micro_batch),
                      contestant<T>(ground, name, micro_batch, flags)});
}

template <class T>
void against_one_rank(RankBenchmark& ground, const std::string& name, size_t micro_batch_size,
                      const typename T::Flags& flags = {}) {
  take_turns(ground, {contestant<SingleGpuTrainer>(ground, "01_single_gpu", micro_batch_size),
                      contestant<T>(ground, name, micro_batch_size, flags)});
}

// Returns the schedule's flags. Any name that is not an order's is "auto".
ScheduleFlags flags_of(const std::string& name, const std::vector<double>& times) {
  ScheduleFlags flags = {.times = times};
  const auto order = std::ranges::find(kOrders, name, [](Order o) { return name_of(o); });
  flags.order = order == std::end(kOrders) ? std::optional<Order>() : *order;
  return flags;
}

void measure(RankBenchmark& ground, const Options& options) {
  const auto [tokens, batch, rounds] = ground.options();
  if (ground.ranks().rank() == 0) {
    std::printf("124M, B=%zu, T=%zu, %zu ranks of one thread, medians of %zu rounds\n", batch,
                tokens, ground.ranks().size(), rounds);
  }
  if (options.lesson == "06") {
    against_ddp<Zero1Trainer>(ground, "03_zero1");
    against_ddp<Zero2Trainer>(ground, "04_zero2");
    against_ddp<Zero3Trainer>(ground, "05_zero3");
    against_ddp<OffloadTrainer>(ground, "06_offload");
    against_ddp<OffloadTrainer>(ground, "06_offload stage 3 with parameters",
                                {.zero_stage = 3, .offload_parameters = true, .gather = {}});
  } else if (options.lesson == "09") {
    against_one_rank<TensorParallelTrainer>(ground, "07_tensor_parallel", batch);
    against_one_rank<PipelineTrainer>(ground, "08_pipeline_parallel, 1f1b", 1);
    against_one_rank<PipelineTrainer>(ground, "08_pipeline_parallel, gpipe", 1,
                                      {.schedule = ScheduleKind::gpipe});
  } else if (options.lesson == "13") {
    const auto sequence = [&](const std::string& gathered) {
      return contestant<SequenceParallelTrainer>(ground, "13_sequence_parallel, " + gathered, batch,
                                                 {.tensor = {}, .tokens = {.gathered = gathered}});
    };
    take_turns(ground, {contestant<TensorParallelTrainer>(ground, "07_tensor_parallel", batch),
                        sequence("again"), sequence("keep")});
  } else {
    std::vector<Contestant> all = {contestant<PipelineTrainer>(ground, "lesson 08, 1f1b", 1)};
    for (const std::string& name : options.schedules) {
      all.push_back(contestant<ScheduleTrainer>(ground, name, 1, flags_of(name, options.times)));
    }
    take_turns(ground, std::move(all));
  }
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  ladder::Options options;
  return ladder::run_rank_benchmark(
      argc, argv, "Training steps of lessons that take turns",
      [&](CLI::App& app) {
        app.add_option("LESSON", options.lesson, "Whose comparison")
            ->required()
            ->check(CLI::IsMember({"06", "09", "13", "16"}));
        app.add_option("--schedules", options.schedules,
                       "Those of 16 [1f1b,interleaved,zb-h1,zb-v]")
            ->delimiter(',')
            ->check(
                CLI::IsMember({"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "auto"}));
        app.add_option("--times", options.times, "Of 16, for auto: as --times of the lesson")
            ->delimiter(',')
            ->expected(5);
      },
      [&](ladder::RankBenchmark& ground) { ladder::measure(ground, options); });
}
