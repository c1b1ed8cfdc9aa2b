// A training step with experts in some blocks, against its floor.
//
// The floor is the matrix products of the step and AdamW (common/train/bench/step_floor.h), with
// the rows that each expert had in the step before. Routers do not divide tokens evenly, and in a
// step all ranks wait for the one whose experts have most, block by block. So there is a second
// floor, in which they do the same. (With --balance-loss 1 routers soon divide evenly, and the two
// floors are alike.)
#include <map>

#include "common/train/bench/step_floor.h"
#include "common/train/trainer/model_state.h"
#include "lessons/15_expert_parallel/trainer.h"
#include "tools/measure/turns/turns.h"

namespace ladder {
namespace {

// The floor of the rank's part of a step.
class ExpertFloor {
 public:
  ExpertFloor(const RunConfig& config, const ProcessGrid& grid, size_t num_parameters)
      : rank_(grid.group_rank(Axis::expert)),
        held_(config.model.experts.num_experts / grid.expert_size),
        layers_(StepFloor::layers_of(config.model,
                                     config.micro_batch_size * config.model.sequence_length)),
        first_(layers_.size()),
        floor_(with_experts(config), num_parameters, DType::fp32, DeviceType::cpu) {}

  // Gives each expert of this rank the rows that it had in a step.
  void set_rows(const std::map<size_t, ExpertLayer::Load>& loads) {
    size_t layer = first_;
    for (const auto& [block, load] : loads) {
      for (size_t expert = rank_ * held_; expert < (rank_ + 1) * held_; ++expert, layer += 2) {
        const auto rows = static_cast<size_t>(load.kept[expert]);
        floor_.set_rows(layer, rows);
        floor_.set_rows(layer + 1, rows);
      }
    }
  }
  // Does the work once. With `ranks` all of them wait for each other before and after the experts
  // of each block.
  void run(Communicator* ranks) {
    floor_.run([&](size_t layer) {
      const size_t next = layer + 1;
      if (ranks != nullptr && next >= first_ && (next - first_) % (2 * held_) == 0)
        ranks->barrier();
    });
  }

 private:
  std::vector<StepFloor::Layer> with_experts(const RunConfig& config) const {
    const size_t c = config.model.hidden, f = config.model.ffn_size();
    const size_t most = config.global_batch_size * config.model.sequence_length;
    std::vector<StepFloor::Layer> layers = layers_;
    for (size_t block = 0; block < config.model.num_layers; ++block) {
      if (!config.model.has_experts(block)) continue;
      for (size_t expert = 0; expert < held_; ++expert) {
        layers.push_back({most, c, f});
        layers.push_back({most, f, c});
      }
    }
    return layers;
  }

  size_t rank_, held_;
  std::vector<StepFloor::Layer> layers_;  // without experts
  size_t first_;                          // of the experts' layers
  StepFloor floor_;
};

}  // namespace

void compare_experts(Ground& ground, const std::vector<std::string>& texts) {
  const std::string text = texts.empty() ? "15_expert_parallel" : texts[0];
  TimedTrainer timed(ground, text);
  auto* const trainer = dynamic_cast<ExpertParallelTrainer*>(timed.trainer.get());
  if (trainer == nullptr || timed.grid.expert_size != ground.ranks().size()) {
    throw UserError(
        "lesson 15, and all ranks have to share the experts: only then is it known how many rows "
        "each expert of a rank has");
  }
  ExpertFloor floor(timed.config, timed.grid, trainer->state().layout().num_elements());
  take_turns(ground,
             {{text, [&] { timed.step(); }},
              {"floor", [&] { floor.run(nullptr); }, [&] { floor.set_rows(trainer->loads()); }},
              {"floor, ranks wait for each other", [&] { floor.run(&ground.ranks()); }}});
}

}  // namespace ladder
