#include "lessons/15_expert_parallel/expert_flags.h"

#include <numeric>

#include "common/model/train_choice.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"

namespace ladder {

void ExpertFlags::add_to(FlagTable& flags) {
  const FlagTraits of_model = {.compared = ComparedBy::model};
  flags.heading("Experts");
  flags.add("--experts", experts, "Experts of a block [8]", whole(1, 4096), of_model);
  flags.add("--experts-per-token", per_token, "How many of them a token goes to [2]",
            whole(1, 4096), of_model);
  flags.add("--moe-every", every, "Every how many blocks is one with experts instead of an MLP [2]",
            whole(1, 10'000), of_model);
  flags.add("--expert-parallel-size", parallel_size,
            "Ranks that share the experts [the most that divide the ranks and the experts]",
            whole(1, 4096));
  flags.add(
      "--capacity-factor", capacity_factor,
      "An expert takes this times an equal share of a sequence's choices; 0 = all of them [0]",
      real(0, 1e6));
  flags.add("--balance-loss", balance_loss, "Coefficient of the load-balancing loss [0.01]",
            real(0, 1e6));
  flags.add("--z-loss", z_loss, "Coefficient of the router's z-loss [0.001]", real(0, 1e6));
}

ExpertsConfig ExpertFlags::config(const ExpertsConfig& preset) const {
  const bool has_preset = preset.num_experts > 0;
  const size_t e = experts.value_or(has_preset ? preset.num_experts : kExperts);
  const size_t k = per_token.value_or(std::min(has_preset ? preset.per_token : 2, e));
  if (k > e) {
    throw UserError(concat("--experts-per-token ", k, ": there are only --experts ", e));
  }
  return {.num_experts = e, .per_token = k, .every = every.value_or(has_preset ? preset.every : 2)};
}

size_t ExpertFlags::parallel_size_of(size_t num_ranks) const {
  if (parallel_size == 0) return std::gcd(num_ranks, experts.value_or(num_ranks));
  if (num_ranks % parallel_size != 0) {
    throw UserError(concat("--expert-parallel-size ", parallel_size, " does not divide ",
                           counted(num_ranks, "rank")));
  }
  if (experts.value_or(parallel_size) % parallel_size != 0) {
    throw UserError(concat("--expert-parallel-size ", parallel_size, " does not divide ",
                           counted(*experts, "expert")));
  }
  return parallel_size;
}

void ExpertFlags::adjust(RunConfig& run) {
  const std::string choice = train_choice(run.model);
  run.model.experts = config(run.model.experts);
  if (!choice.empty()) run.model.frozen = frozen_names(run.model, choice);
  experts = run.model.experts.num_experts;
  if (run.model.experts.every > run.model.num_layers) {
    throw UserError(concat("--moe-every ", run.model.experts.every, ": the model has only ",
                           counted(run.model.num_layers, "block"), ", so none has experts"));
  }
  const auto refuse = [](const char* flag, const char* why) {
    throw UserError(concat(flag, ": not in this lesson: ", why));
  };
  if (run.recompute.name != "none" || !run.recompute.of_blocks.empty()) {
    refuse("--recompute", "the experts' activations come from other ranks");
  }
  if (run.offload_activations) refuse("--offload-activations", "it knows no experts");
}

}  // namespace ladder
