#include "common/train/trainer/trainer.h"

#include "common/train/trainer/ranks.h"

namespace ladder {

ProcessGrid grid_of(const TrainerContext& context) {
  return context.ranks == nullptr ? ProcessGrid() : context.ranks->grid;
}

}  // namespace ladder
