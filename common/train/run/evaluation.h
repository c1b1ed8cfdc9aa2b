// The evaluation of a model in the midst of a run.
#pragma once

#include "common/comm/communicator.h"
#include "common/train/report/metrics_file.h"
#include "common/train/trainer/trainer.h"

namespace ladder {

// Sets the validation loss of the step, if any token counts in it, and of a classification head the
// accuracy: what part of the validation split's examples it gives their label. `counted` is that of
// the trainer's context. What `world` communicates meanwhile counts as control. Collective.
void evaluate(Trainer& trainer, const RunConfig& config, Communicator& world,
              CountedTokens& counted, MetricsFile::Step& step);

}  // namespace ladder
