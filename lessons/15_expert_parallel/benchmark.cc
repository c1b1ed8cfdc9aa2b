// A training step of GPT-2 124M with experts in every second block, against its floor:
//   bazel build //lessons/15_expert_parallel:benchmark
//   tools/mpirun -n 2 bazel-bin/lessons/15_expert_parallel/benchmark --tokens 256 --batch 4
//
// Every rank has one thread and holds its part of the experts. The floor is the matrix products of
// the step and AdamW, nothing else (common/train/bench/step_floor.h), with the rows that each
// expert had in the step before. Routers do not divide tokens evenly, and in a step all ranks wait
// for the one whose experts have most, block by block. So there is a second floor, in which they do
// the same. (With --balance-loss 1 routers soon divide evenly, and the two floors are alike.) Step
// and floors take turns, so that other programs on the machine disturb all alike. It prints medians
// over the rounds: of the slowest rank's milliseconds, and of step / floor within a round.
#include <array>
#include <cstdio>
#include <map>
#include <vector>

#include "common/model/description.h"
#include "common/train/bench/rank_benchmark.h"
#include "common/train/bench/step_floor.h"
#include "kernels/runtime/median.h"
#include "lessons/15_expert_parallel/trainer.h"

namespace ladder {
namespace {

// The floor of the rank's part of a step.
class ExpertFloor {
 public:
  ExpertFloor(const RunConfig& config, const ProcessGrid& grid)
      : experts_(config.model.experts),
        rank_(grid.place(Axis::expert)),
        held_(experts_.num_experts / grid.expert_size),
        layers_(StepFloor::layers_of(config.model,
                                     config.micro_batch_size * config.model.sequence_length)),
        first_(layers_.size()) {
    const size_t c = config.model.hidden, f = config.model.ffn_size();
    const size_t most = config.global_batch_size * config.model.sequence_length;
    for (size_t block = 0; block < config.model.num_layers; ++block) {
      if (!config.model.has_experts(block)) continue;
      for (size_t expert = 0; expert < held_; ++expert) {
        layers_.push_back({most, c, f});
        layers_.push_back({most, f, c});
      }
    }
  }

  // Allocates. `num_parameters` is how many the rank updates.
  void make(size_t num_parameters) {
    floor_ = std::make_unique<StepFloor>(layers_, num_parameters, DType::fp32, DeviceType::cpu);
  }
  // Gives each expert of this rank the rows that it had in a step.
  void set_rows(const std::map<size_t, ExpertLayer::Load>& loads) {
    size_t layer = first_;
    for (const auto& [block, load] : loads) {
      for (size_t expert = rank_ * held_; expert < (rank_ + 1) * held_; ++expert, layer += 2) {
        const auto rows = static_cast<size_t>(load.kept[expert]);
        floor_->set_rows(layer, rows);
        floor_->set_rows(layer + 1, rows);
      }
    }
  }
  // Does the work once. With `ranks` all of them wait for each other before and after the experts
  // of each block.
  void run(Communicator* ranks) {
    floor_->run([&](size_t layer) {
      const size_t next = layer + 1;
      if (ranks != nullptr && next >= first_ && (next - first_) % (2 * held_) == 0)
        ranks->barrier();
    });
  }

 private:
  ExpertsConfig experts_;
  size_t rank_, held_;
  std::vector<StepFloor::Layer> layers_;
  size_t first_;  // of the experts' layers
  std::unique_ptr<StepFloor> floor_;
};

void measure(RankBenchmark& ground, const ExpertParallelTrainer::Flags& flags) {
  const auto [tokens, batch, rounds] = ground.options();
  RunConfig config = ground.config();
  ExpertParallelTrainer::adjust(flags, config);
  const TrainerContext base = ground.context();
  const size_t size = ground.ranks().size();
  const ProcessGrid grid = ExpertParallelTrainer::arrange(flags, size, ground.ranks().rank());
  if (grid.expert_size != size) {
    throw UserError(
        "all ranks have to share the experts: only then is it known how many rows each "
        "expert of a rank has");
  }
  GridGroups groups(ground.ranks(), grid);
  const RankContext ranks = {grid, ground.ranks(), &groups, base.ranks->registered};
  ExpertParallelTrainer trainer(
      {config, base.corpus, base.device_memory, base.host_memory, base.stream, &ranks}, flags);
  trainer.state().initialize();
  ExpertFloor floor(config, grid);
  floor.make(trainer.state().layout().num_elements());

  Communicator& all = ground.ranks();
  std::vector<double> steps;
  std::array<std::vector<double>, 2> floors, ratios;  // without and with meetings
  for (size_t round = 0; round <= rounds; ++round) {
    const double step = ground.ms_of([&] { trainer.step(); });
    floor.set_rows(trainer.loads());
    const std::array<double, 2> least = {ground.ms_of([&] { floor.run(nullptr); }),
                                         ground.ms_of([&] { floor.run(&all); })};
    if (round == 0) continue;  // touches the memory
    steps.push_back(step);
    for (size_t i = 0; i < least.size(); ++i) {
      floors[i].push_back(least[i]);
      ratios[i].push_back(step / least[i]);
    }
  }
  if (all.rank() != 0) return;
  const ExpertsConfig& experts = config.model.experts;
  std::printf(
      "124M, %zu experts in every %zu. block, %zu for a token, B=%zu, T=%zu, %zu ranks of one "
      "thread, medians of %zu rounds\nstep %.0f ms\n",
      experts.num_experts, experts.every, experts.per_token, batch, tokens, size, rounds,
      median(steps));
  const char* const names[] = {"floor", "floor, ranks wait for each other"};
  for (size_t i = 0; i < floors.size(); ++i) {
    std::printf("%-33s %.0f ms, step / floor %.3f\n", names[i], median(floors[i]),
                median(ratios[i]));
  }
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  ladder::ExpertParallelTrainer::Flags flags;
  return ladder::run_rank_benchmark(
      argc, argv, "Lesson 15's step against its floor", [&](CLI::App& app) { flags.add_to(app); },
      [&](ladder::RankBenchmark& ground) { ladder::measure(ground, flags); });
}
