#include "common/pipeline/stage_timer.h"

#include <algorithm>

namespace ladder {

void StageTimer::add_up() {
  if (num_spans_ == 0) return;
  for (size_t i = 0; i < num_spans_; ++i) {
    Span& span = spans_[i];
    span.end.synchronize();  // the begin was passed before
    const double seconds = 1e-3 * Event::elapsed_ms(span.begin, span.end);
    double& sum = times_.*span.part;
    sum = span.part != &StageTimes::message ? sum + seconds
          : sum == 0                        ? seconds
                                            : std::min(sum, seconds);
  }
  num_spans_ = 0;
  if (num_steps_ == 1) times_ = {};
  times_.steps = static_cast<double>(num_steps_ - 1);
}

}  // namespace ladder
