#include "lessons/18_fine_tuning/trainer.h"

#include "common/io/text.h"
#include "common/train/flags/flag_table.h"
#include "common/train/program/prediction.h"

namespace ladder {
namespace {

// Returns what one replica of the model keeps on its devices from step to step: its first data and
// context rank's memory, over the ranks that split the model.
MemoryUse state_bytes(const ThreeDFlags& flags, const RunConfig& config, ProcessGrid grid) {
  const Program program = make_program<ThreeDTrainer>(flags).planned(config, grid);
  MemoryUse sum;
  for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) {
    if (grid.group_rank(Axis::data) != 0 || grid.group_rank(Axis::context) != 0) continue;
    const MemoryUse device = predict_memory(program, config, grid).device;
    for (Category category : {Category::parameters, Category::gradients, Category::optimizer}) {
      sum[category] += device[category];
    }
  }
  return sum;
}

}  // namespace

void FineTuningTrainer::Flags::add_to(FlagTable& flags) {
  ThreeDFlags::add_to(flags);
  CLI::Option* train = flags.app().get_option("--train");
  std::string text = train->get_description();
  text.replace(text.rfind('['), std::string::npos, concat("[", kDefaultTrain, "]"));
  train->description(text)->default_val(kDefaultTrain)->default_str("");
}

std::string FineTuningTrainer::describe(const Flags& flags, const RunConfig& config,
                                        const ProcessGrid& grid, const SharedPlan& plan) {
  RunConfig all = config;  // the model without adapters, whose parameters count
  all.model.frozen.clear();
  all.model.lora.reset();
  const auto each = [&](size_t bytes) {
    return static_cast<double>(bytes) /
           static_cast<double>(ladder::describe(all.model).num_parameters());
  };
  const MemoryUse state = state_bytes(flags, config, grid);
  const std::string text = format(
      "  state    %.3f bytes a parameter: weight %.3f, gradient %.3f, optimizer %.3f; if all "
      "were trained %.3f\n",
      each(state.total()), each(state[Category::parameters]), each(state[Category::gradients]),
      each(state[Category::optimizer]), each(state_bytes(flags, all, grid).total()));
  return text + (grid.world_size() > 1 ? ThreeDTrainer::describe(flags, config, grid, plan)
                                       : std::string());
}

}  // namespace ladder
