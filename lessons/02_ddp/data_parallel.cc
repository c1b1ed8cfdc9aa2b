#include "lessons/02_ddp/data_parallel.h"

#include "common/train/trainer/replicas.h"

namespace ladder {

double DataParallel::evaluate(ModelRunner& model, size_t num_batches,
                              const std::function<Hooks()>& hooks) const {
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    model.evaluate_sequences(batch, first(), end(), hooks);
    total += sum_over(ranks_, model.total_loss());
  }
  return total / model.counted_in_validation(num_batches);
}

}  // namespace ladder
