#include "common/train/trainer.h"

#include "common/train/ranks.h"

namespace ladder {

ProcessGrid grid_of(const TrainerContext& context) {
  return context.ranks == nullptr ? ProcessGrid() : context.ranks->grid;
}

}  // namespace ladder
