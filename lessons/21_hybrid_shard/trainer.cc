#include "lessons/21_hybrid_shard/trainer.h"

#include <cmath>

#include "common/io/text.h"
#include "common/train/trainer/replicas.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

// Everything is sharded. Peers of the shard group read parameters in place, and those that hold the
// same shard sum gradients in place.
ModelState::Storages storages(const RankContext& ranks) {
  return {.parameters = {.is_sharded = true, .source = ranks.registered},
          .gradients = {.is_sharded = true, .source = ranks.registered},
          .optimizer = {.is_sharded = true},
          .muon = {.all = &ranks.on(Axis::shard)}};
}

}  // namespace

std::string HybridShardTrainer::describe(const Flags&, const RunConfig& config,
                                         const ProcessGrid& grid, const SharedPlan&) {
  const size_t size = grid.size(Axis::shard), copies = grid.size(Axis::replica);
  const std::string where = groups_cross_machines(config.machine_of, size)
                                ? ", and groups cross machines"
                                : std::string();
  const std::string on = size == 1 ? "on one rank" : concat("shared by ", size, " ranks");
  return concat("  shards   ", copies,
                copies == 1 ? " copy of the model, " : " copies of the model, each ", on, where,
                "\n");
}

HybridShardTrainer::HybridShardTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      ranks_(context.ranks->world),
      shard_group_(context.ranks->on(Axis::shard)),
      replicas_(context.ranks->on(Axis::replica)),
      layout_(context.config.model, ranks_.size(), {.replicas = replicas_.size()}),
      state_(context, layout_, layout_rank(context.ranks->grid), storages(*context.ranks)),
      model_(context, layout_, {}, {}),
      share_(context.config, ranks_),
      gatherer_(context, state_, shard_group_, flags.gather),
      sync_(context, state_, shard_group_, replicas_,
            context.config.num_micro_batches(ranks_.size())) {}

StepResult HybridShardTrainer::step() {
  const RunConfig& config = context_.config;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = share_.first(); first < share_.end(); first += config.micro_batch_size) {
    const Hooks hooks = combined(gatherer_.hooks(model_.training_walk()), sync_.hooks());
    model_.load(Split::train, state_.step, first);
    model_.forward(hooks);
    model_.classify(1 / num_tokens, hooks);
    model_.backward(hooks);
  }
  sync_.wait();
  const double loss = sum_over(ranks_, model_.total_loss()) / num_tokens;
  const double norm = grad_norm();
  // The update is the same on all ranks that hold the same shard.
  return {loss, norm, state_.update(norm)};
}

// Rank q sums the squares of what it owns, the N-th of all with the number layout_rank(q). To have
// the bits of lessons 02 to 05, sum_over() has to get these numbers in their order. So ranks swap
// them before, and rank r gives number r: of four ranks with S = 2, ranks 1 and 2 swap.
double HybridShardTrainer::grad_norm() {
  std::vector<double> squares(ranks_.size());
  const ProcessGrid& grid = context_.ranks->grid;
  squares[ranks_.rank()] = state_.squared_norm();
  Stream host(DeviceType::cpu);
  const TensorView all(squares.data(), DType::fp64, DeviceType::cpu, {squares.size()});
  ranks_.all_gather(host, all, all.rows(ranks_.rank(), 1), {}).wait(host);
  const size_t copies = grid.size(Axis::replica), r = ranks_.rank();
  const size_t owner = r % copies * grid.size(Axis::shard) + r / copies;  // its layout_rank() is r
  return std::sqrt(sum_over(ranks_, squares[owner]));
}

double HybridShardTrainer::evaluate(size_t num_batches) {
  return share_.evaluate(model_, num_batches,
                         [&] { return gatherer_.hooks(evaluation_walk(layout_)); });
}

void HybridShardTrainer::check_replicas() { check_copies(state_, ranks_, {{replicas_}}); }

}  // namespace ladder
