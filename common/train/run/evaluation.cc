#include "common/train/run/evaluation.h"

#include "common/train/trainer/replicas.h"

namespace ladder {

void evaluate(Trainer& trainer, const RunConfig& config, Communicator& world,
              CountedTokens& counted, MetricsFile::Step& step) {
  world.count_as_control(true);
  counted.hits = {};
  const double loss = trainer.evaluate(config.evaluate_batches);
  if (!counted.none) step.validation_loss = loss;
  if (!config.model.labels.empty()) {
    // Ranks that split a model's tensors count the same rows, all of them equally often.
    const double right = sum_over(world, static_cast<double>(counted.hits.right));
    step.accuracy = right / sum_over(world, static_cast<double>(counted.hits.all));
  }
  world.count_as_control(false);
}

}  // namespace ladder
