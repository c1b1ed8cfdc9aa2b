// The order in which a micro-batch uses the units of a model, known before anything runs.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "common/model/layout.h"

namespace ladder {

// What happens while a unit is in use. The classifier computes logits, the loss and at once the
// gradients of both its inputs, so it is a pass of its own, between forward and backward.
enum class Pass { forward, classifier, backward };
std::string_view name_of(Pass pass);

// One use of a unit: by which operation of the layout, in which pass, and what it does with the
// unit.
struct Use {
  Pass pass = Pass::forward;
  size_t operation = 0;
  size_t unit = 0;
  bool reads_weights = false;
  bool writes_gradient = false;
  // After this use nothing in this micro-batch adds to the unit's gradient. True of one use of each
  // unit, in the backward pass.
  bool gradient_is_final = false;

  bool operator==(const Use&) const = default;
};

// The uses of one micro-batch of training: every operation in forward, the classifier among them,
// then the others in backward from the last to the first. Where the classifier's unit has no other
// operation here, backward begins with a use that only says that its gradient is final. (A pipeline
// stage may run other micro-batches between forward and backward of one.)
std::vector<Use> training_walk(const Layout& layout);

// Which of several pieces of memory, "slots", each unit uses where memory is for one unit at a
// time.
struct SlotPlan {
  std::vector<size_t> slot_of_unit;
  std::vector<size_t> elements;  // of each slot
};
// Units that `has_slot_of_its_own` names have one each, as large as they are; all others take turns
// in `num_turns` slots, each as large as the largest of them. So of num_turns units that follow one
// another no two share a slot, whether forward or backward.
SlotPlan plan_slots(const Layout& layout, const std::vector<bool>& has_slot_of_its_own,
                    size_t num_turns);

// The uses of one micro-batch of evaluation: forward, and the classifier without gradients.
std::vector<Use> evaluation_walk(const Layout& layout);

}  // namespace ladder
