#include "lessons/17_elastic/layout_choice.h"

#include <tuple>
#include <vector>

#include "common/model/description.h"
#include "common/model/divisible.h"
#include "common/schedule/cut.h"

namespace ladder {
namespace {

std::vector<size_t> divisors_of(size_t number) {
  std::vector<size_t> divisors;
  for (size_t n = 1; n <= number; ++n) {
    if (number % n == 0) divisors.push_back(n);
  }
  return divisors;
}

// Of two layouts the one with the larger value is the better one.
auto value_of(const ProcessGrid& layout) {
  return std::tuple(layout.world_size(), layout.tensor_size * layout.pipeline_size,
                    layout.tensor_size);
}

}  // namespace

bool can_train(const RunConfig& config, const ProcessGrid& layout) {
  if (!can_split(config.model, layout.tensor_size)) return false;
  if (layout.pipeline_size > most_stages(describe(config.model))) return false;
  if (config.global_batch_size % layout.data_size != 0) return false;
  const size_t sequences = config.global_batch_size / layout.data_size;
  return config.micro_batch_size == 0 || sequences % config.micro_batch_size == 0;
}

ProcessGrid choose_layout(const RunConfig& config, const ProcessGrid& wished, size_t num_ranks) {
  ProcessGrid best;
  for (size_t tensor : divisors_of(wished.tensor_size)) {
    for (size_t pipeline : divisors_of(wished.pipeline_size)) {
      ProcessGrid layout = {.pipeline_size = pipeline, .tensor_size = tensor};
      for (layout.data_size = num_ranks / (tensor * pipeline); layout.data_size > 0;
           --layout.data_size) {
        if (!can_train(config, layout)) continue;
        if (value_of(layout) > value_of(best)) best = layout;
        break;  // a smaller data size makes fewer ranks
      }
    }
  }
  return best;
}

}  // namespace ladder
