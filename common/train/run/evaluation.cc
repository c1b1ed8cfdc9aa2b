#include "common/train/run/evaluation.h"

namespace ladder {

void evaluate(Trainer& trainer, const RunConfig& config, Communicator& world,
              CountedTokens& counted, MetricsFile::Step& step) {
  world.count_as_control(true);
  step.validation_loss = trainer.evaluate(config.evaluate_batches);
  if (!config.model.labels.empty()) {
    counted.of_hits = true;
    step.accuracy = trainer.evaluate(config.evaluate_batches);
    counted.of_hits = false;
  }
  world.count_as_control(false);
}

}  // namespace ladder
