// The walk: the order in which a micro-batch uses the units of a model. It is known before anything
// runs, so lessons plan buckets, gathers and memory from it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "common/model/layout.h"
#include "common/model/recompute.h"

namespace ladder {

// The pass in which a unit is used. The classifier computes the logits, the loss and the gradients
// of both its inputs together, so it is a pass of its own, between forward and backward. Recompute
// computes again what a transformer block has dropped (recompute.h). backward_input and
// backward_weight are the halves of backward, if it runs in two.
enum class Pass { forward, classifier, recompute, backward, backward_input, backward_weight };
std::string_view name_of(Pass pass);

// One use of a unit: the operation of the layout that uses it, the pass, and what the operation
// does with the unit.
struct Use {
  Pass pass = Pass::forward;
  size_t operation = 0;
  size_t unit = 0;
  bool reads_weights = false;
  bool writes_gradient = false;
  // True if nothing in this micro-batch adds to the unit's gradient after this use. It is true for
  // one use of each unit that is trained, in the backward pass.
  bool gradient_is_final = false;

  bool operator==(const Use&) const = default;
};

// Returns the uses of one micro-batch of training: all operations in forward, then the classifier,
// then the operations in backward from the last to Layout::first_backward(); frozen embeddings have
// no backward. Before a transformer block's backward comes its recompute, if the plan asks for it.
// If blocks form a group, the recompute uses of all of them come in the order of forward, before
// the backward of the group's last block. If no other operation of this layout uses the
// classifier's unit, backward begins with a use that only says that its gradient is final. (A
// pipeline stage may run other micro-batches between forward and backward of this one.)
std::vector<Use> training_walk(const Layout& layout, const RecomputePlan& plan = {});

// Returns the same walk with backward in two halves: all backward_input uses, which lead to the
// gradient of this part's input, and then all backward_weight uses. A layernorm's parameters
// and adapters get their gradient in the first half, embeddings and linear layers in the second.
// REQUIRES: the walk recomputes nothing.
std::vector<Use> in_two_halves(const Layout& layout, const std::vector<Use>& walk);

// A plan of buffers. A buffer is memory that holds one unit at a time; the plan says which buffer
// each unit uses.
struct BufferPlan {
  std::vector<size_t> buffer_of_unit;
  std::vector<size_t> elements;  // the size of each buffer
};
// Plans the buffers. A unit that `has_own_buffer` names gets a buffer of its size. All other units
// take turns in `num_turns` buffers, each as large as the largest of these units. So num_turns such
// units that follow each other, in forward or in backward, are all in different buffers.
BufferPlan plan_buffers(const Layout& layout, const std::vector<bool>& has_own_buffer,
                        size_t num_turns);

// Returns the uses of one micro-batch of evaluation: forward, and the classifier without gradients.
std::vector<Use> evaluation_walk(const Layout& layout);

}  // namespace ladder
