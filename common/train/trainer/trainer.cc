#include "common/train/trainer/trainer.h"

#include "common/checkpoint/writer.h"
#include "common/train/trainer/model_state.h"
#include "common/train/trainer/ranks.h"

namespace ladder {

ProcessGrid grid_of(const TrainerContext& context) {
  return context.ranks == nullptr ? ProcessGrid() : context.ranks->grid;
}

void Trainer::initialize() { state().initialize(); }

std::vector<Slice> Trainer::slices(std::string_view kind) { return state().slices(kind); }

std::vector<NamedSlice> Trainer::stored() {
  return stored_slices([this](std::string_view kind) { return slices(kind); });
}

void Trainer::restore(CheckpointReader& from) { state().restore(from); }

std::vector<Scalar> Trainer::scalars() { return state().scalars(); }

}  // namespace ladder
