#include "lessons/20_muon/trainer.h"

#include <cmath>

#include "common/train/flags/flag_table.h"
#include "common/train/trainer/replicas.h"
#include "kernels/elementwise.h"
#include "lessons/20_muon/homes_table.h"

namespace ladder {

void MuonTrainer::Flags::add_to(FlagTable& flags) {
  flags.heading("Muon", ComparedBy::nothing);  // homes change no number of the state
  flags.add("--homes", homes,
            "Where a matrix becomes whole: longest-first or in-turn on one rank, or everywhere "
            "[longest-first]",
            CLI::IsMember({"longest-first", "in-turn", "everywhere"}).description(""));
}

HomeChoice MuonTrainer::Flags::choice() const {
  return homes == "in-turn" ? HomeChoice::in_turn : HomeChoice::longest_first;
}

void MuonTrainer::adjust(Flags& flags, RunConfig& config) {
  if (config.optimizer.name == "muon" || flags.homes == Flags().homes) return;
  throw UserError(concat("--homes ", flags.homes, " needs --optimizer muon"));
}

std::string MuonTrainer::describe(const Flags& flags, const RunConfig& config,
                                  const ProcessGrid& grid, const SharedPlan&) {
  if (config.optimizer.name != "muon") return "";
  if (flags.are_everywhere()) return "  homes    every rank makes all matrices orthogonal\n";
  const Layout layout(config.model, grid.world_size());
  const MuonHomes homes(config.optimizer, layout.trained(), 0,
                        {.size = grid.world_size(), .has_shards = true, .choice = flags.choice()});
  return homes_text(homes);
}

MuonTrainer::MuonTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      ranks_(context.ranks->world),
      layout_(context.config.model, ranks_.size()),
      state_(context, layout_, ranks_.rank(),
             zero_storages(flags.zero(), context.ranks->registered,
                           {.all = &ranks_, .choice = flags.choice()})),
      model_(context, layout_, state_.parameters, state_.gradients),
      share_(context.config, ranks_),
      sync_(make_zero_sync(flags.zero(), state_, ranks_)) {}

StepResult MuonTrainer::step() {
  const RunConfig& config = context_.config;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = share_.first(); first < share_.end(); first += config.micro_batch_size) {
    model_.load(Split::train, state_.step, first);
    model_.forward();
    model_.classify(1 / num_tokens);
    // Only a sum over all micro-batches and all ranks may become orthogonal: a sum of matrices that
    // were made orthogonal before is not.
    model_.backward(share_.is_last(first) ? sync_->hooks() : Hooks());
  }
  sync_->wait();
  const double loss = sum_over(ranks_, model_.total_loss()) / num_tokens;
  const double norm = std::sqrt(sum_over(ranks_, state_.squared_norm()));
  return {loss, norm, sync_->update(norm)};
}

void MuonTrainer::check_replicas() { check_copies(state_, ranks_, {{ranks_}}); }

}  // namespace ladder
