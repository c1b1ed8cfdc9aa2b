#include "lessons/03_zero1/shards.h"

namespace ladder {

ShardSync::ShardSync(ModelState& state, Communicator& ranks, TensorView gradients)
    : state_(state),
      ranks_(ranks),
      gradients_(gradients.empty() ? state.gradients.view() : gradients) {}

Hooks ShardSync::hooks() {
  Hooks hooks;
  hooks.done = [this](const Use& use) {
    if (!use.gradient_is_final) return;
    const TensorView whole = unit_in_flat(state_.layout().trained(), use.unit, gradients_);
    started_.push_back(ranks_.reduce_scatter(state_.stream(), summed(use.unit), whole,
                                             {.purpose = Purpose::gradient, .background = true}));
  };
  return hooks;
}

void ShardSync::wait() {
  for (Work& work : started_) work.wait(state_.stream());
  started_.clear();
}

TensorView ShardSync::summed(size_t unit) const { return state_.shard(gradients_, unit); }

double ShardSync::update(double norm) { return update_and_gather(state_, ranks_, norm); }

double update_and_gather(ModelState& state, Communicator& ranks, double norm) {
  std::vector<Work> gathers;
  const double learning_rate = state.update(norm, [&](size_t unit) {  // after it has updated a unit
    gathers.push_back(gather_unit(state, ranks, unit));
  });
  for (Work& gather : gathers) gather.wait(state.stream());
  return learning_rate;
}

Work gather_unit(ModelState& state, Communicator& ranks, size_t unit) {
  const Unit& u = state.layout().unit(unit);
  return ranks.all_gather(
      state.stream(), state.parameters.view().rows(u.offset, u.trained_elements),
      state.parameter_shard(unit), {.purpose = Purpose::parameter, .background = true});
}

}  // namespace ladder
