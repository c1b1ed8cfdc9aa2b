#include "common/schedule/costs.h"

namespace ladder {

Costs uniform_costs(double forward, double backward, double message) {
  return [=](size_t, const Action& action) {
    switch (action.kind) {
      case ActionKind::forward:
        return forward;
      case ActionKind::backward:
        return backward;
      case ActionKind::backward_input:
      case ActionKind::backward_weight:
        return backward / 2;
      default:
        return message;
    }
  };
}

}  // namespace ladder
