#include "lessons/17_elastic/trainer.h"

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "lessons/17_elastic/step_file.h"

namespace ladder {

void ElasticTrainer::Flags::add_to(FlagTable& flags) {
  // Besides sizes of the layout: when ranks end, and where they write.
  flags.heading("Elastic", ComparedBy::nothing);
  flags.add("--tensor-parallel-size", tensor_parallel_size,
            "Ranks that split every large weight [1]", whole(1, 1'000'000),
            {.compared = ComparedBy::layout});
  flags.add("--pipeline-parallel-size", pipeline_parallel_size, "Stages of the pipeline [1]",
            whole(1, 1'000'000), {.compared = ComparedBy::layout});
  add_failures(flags, failures);
  flags.add("--step-file", step_file, "File: ranks write to it in which step they are",
            {.file = FileUse::written});
  // Other defaults than the other lessons have.
  const auto set_default = [&](const char* flag, auto value, const std::string& text) {
    flags.app().get_option(flag)->description(text)->default_val(value)->default_str("");
  };
  set_default("--global-batch-size", kGlobalBatchSize,
              concat("Sequences in an optimizer step [", kGlobalBatchSize, "]"));
  set_default(
      "--checkpoint-every", kCheckpointEvery,
      concat("Steps between checkpoints; 0 = only after the last [", kCheckpointEvery, "]"));
}

ThreeDTrainer::Flags ElasticTrainer::Flags::three_d() const {
  ThreeDTrainer::Flags flags;
  flags.tensor_parallel_size = tensor_parallel_size;
  flags.pipeline.pipeline_parallel_size = pipeline_parallel_size;
  flags.zero.stage = 1;
  return flags;
}

ElasticTrainer::ElasticTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context), flags_(flags) {
  const RunConfig& config = context.config;
  check_failures(flags.failures, context.ranks->grid.world_size(), config.optimizer.num_steps);
  if (context.plan) {
    trainer_ = std::make_unique<ThreeDTrainer>(context, flags.three_d());
  } else {
    trainer_ = std::make_unique<Zero3Trainer>(context, Zero3Trainer::Flags());
  }
}

StepResult ElasticTrainer::step() {
  if (Simulation::current() != nullptr) return trainer_->step();  // nobody dies, and nobody is told
  const Failure now = {context_.ranks->grid.rank, state().step + 1};
  if (!flags_.step_file.empty()) write_step(flags_.step_file, now.rank, now.step);
  if (std::ranges::count(flags_.failures, now) == 0) return trainer_->step();
  const DeathInBackward death(context_.stream);
  return trainer_->step();
}

}  // namespace ladder
