#include "common/model/offload.h"

#include <algorithm>

namespace ladder {

ActivationOffload::ActivationOffload(Memory& host, const Layout& layout, DType dtype, size_t rows,
                                     const SharedActivations& shared, DeviceType device,
                                     size_t num_buffers)
    : layout_(layout),
      plan_(shared.offload()),
      sets_(plan_.num_sets()),
      to_host_(device),
      to_device_(device) {
  const std::vector<ActivationSpec> specs =
      block_activation_specs(dense_sublayers(layout.config()));
  for (size_t block = 0; block < layout.count(OperationKind::block); ++block) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const std::optional<size_t> set = plan_.set_of(block, specs[i].operation);
      if (!set || specs[i].columns == 0 || !plan_.is_copied(*set)) continue;
      Item& item = sets_[*set].emplace_back(Item{block, i, {}});
      for (size_t buffer = 0; buffer < num_buffers; ++buffer) {
        item.host.push_back(
            make_activation(host, Category::activations, layout, dtype, rows, specs[i]));
      }
    }
  }
}

ActivationOffload::~ActivationOffload() {
  try {
    to_host_.synchronize();
    to_device_.synchronize();
  } catch (...) {  // the device has failed: whoever uses it next is told
  }
}

Hooks ActivationOffload::added_to(const Hooks& hooks, Stream& stream,
                                  const Activations& activations, size_t buffer) {
  Hooks result = hooks;
  result.begin = [this, &stream, &activations, buffer, before = hooks.begin](const Use& use) {
    if (before) before(use);
    begin(use, stream, activations, buffer);
  };
  result.done = [this, &stream, &activations, buffer, after = hooks.done](const Use& use) {
    done(use, stream, activations, buffer);
    if (after) after(use);
  };
  return result;
}

void ActivationOffload::begin(const Use& use, Stream& stream, const Activations& activations,
                              size_t buffer) {
  const Operation& operation = layout_.operations()[use.operation];
  if (operation.kind != OperationKind::block) return;
  const size_t set = plan_.group_of(operation.index);
  if (use.pass == Pass::forward) {
    turn_of(set).holds = {buffer, set};
  } else {
    fetch(stream, activations, buffer, set);
  }
  // In forward this is also enough for `out`, which lies in the next set's place: the last set that
  // was there got its own `out` copied together with the tensors that lay here.
  if (turn_of(set).was_copied) stream.wait(turn_of(set).copied);
  if (use.pass != Pass::forward && set > 0) fetch(stream, activations, buffer, set - 1);
}

void ActivationOffload::done(const Use& use, Stream& stream, const Activations& activations,
                             size_t buffer) {
  const Operation& operation = layout_.operations()[use.operation];
  if (operation.kind != OperationKind::block || use.pass != Pass::forward) return;
  if (!plan_.ends_group(operation.index)) return;
  const size_t group = plan_.group_of(operation.index);
  computed_.record(stream);
  to_host_.wait(computed_);
  for (size_t set = group; set < std::min(group + 2, sets_.size()); ++set) {
    for (const Item& item : sets_[set]) {
      if (plan_.group_of(item.block) != group) continue;
      copy(to_host_, item.host[buffer], activations.tensor(item.block, item.tensor));
    }
  }
  turn_of(group).copied.record(to_host_);
  turn_of(group).was_copied = true;
}

void ActivationOffload::fetch(Stream& stream, const Activations& activations, size_t buffer,
                              size_t set) {
  Turn& turn = turn_of(set);
  if (turn.holds == std::pair(buffer, set)) return;
  computed_.record(stream);
  to_device_.wait(computed_);  // what the place holds is not needed any more
  // It has been copied, too, and so has the set that comes: sets with this place were copied to the
  // host in their order, and each copy back waits for all that were before it.
  if (turn.was_copied) to_device_.wait(turn.copied);
  for (const Item& item : sets_[set]) {
    copy(to_device_, activations.tensor(item.block, item.tensor), item.host[buffer]);
  }
  turn.holds = {buffer, set};
  turn.copied.record(to_device_);
  turn.was_copied = true;
}

}  // namespace ladder
