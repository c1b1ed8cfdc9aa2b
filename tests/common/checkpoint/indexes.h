// Indexes of checkpoints for tests: whole ones, and their text after a change.
#pragma once

#include <xxhash.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "common/checkpoint/index.h"
#include "common/checkpoint/writer.h"
#include "common/schedule/rank_layout.h"

namespace ladder {

// Four heads and a few odd sizes: it can be split in many ways.
inline constexpr ModelConfig kSmall = {
    .num_layers = 2, .num_heads = 4, .hidden = 8, .vocab_size = 11, .sequence_length = 5};

// The index of a checkpoint of these ranks, without tensors.
inline CheckpointIndex empty_index(const ModelConfig& model, const ProcessGrid& layout,
                                   int64_t step) {
  CheckpointIndex index;
  index.lesson = "09_3d_parallel";
  index.model = model;
  index.layout = layout;
  index.layout.rank = 0;
  index.scalars = {{"step", step}, {"updates", std::max<int64_t>(1, step - 1)}, {"loss_scale", 65536.0}};
  index.settings = {{"--seed", "1"}, {"--data", "7 tokens"}};
  return index;
}

// The slices that rank layout.rank owns, in memory that does not exist: nobody may look into it.
inline std::vector<Slice> slices_without_memory(const Layout& layout, const ProcessGrid& grid) {
  const size_t n = layout.num_elements();
  const TensorView buffer(no_memory().allocate(n * 8), DType::fp64, DeviceType::cpu, {n});
  return owned_slices(layout, grid.group_rank(Axis::data), buffer);
}

// What AdamW has of a rank's slices: stored_slices() asks for each kind that an optimizer may keep.
template <class SlicesOf>
std::vector<NamedSlice> stored_by_adamw(SlicesOf slices_of) {
  return stored_slices([&](std::string_view kind) {
    return kind == kMomentum ? std::vector<Slice>() : slices_of();
  });
}

// A whole index, with made-up checksums. REQUIRES: no slice has more than one file block.
inline CheckpointIndex whole_index(const ModelConfig& model, ProcessGrid grid, int64_t step = 50) {
  CheckpointIndex index = empty_index(model, grid, step);
  for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) {
    const Layout layout = rank_layout(model, grid);
    const auto slices = [&] { return slices_without_memory(layout, grid); };
    for (const auto& [name, slice] : stored_by_adamw(slices)) {
      StoredTensor& tensor = index.tensors[name];
      const Shape& shape = slice.parameter->full_shape;
      tensor.shape.assign(1, shape[0]);
      if (shape.num_dims() == 2) tensor.shape.push_back(shape[1]);
      const PlacedElements elements = elements_of(slice);
      tensor.slices.push_back({grid.rank, elements, {0x0123456789abcdefu + grid.rank}});
    }
  }
  return index;
}

// The text of an index with the checksum that it should have, which is found with a single dump.
inline std::string sealed(nlohmann::json json) {
  json.erase("checksum");
  const std::string text = json.dump();
  char checksum[40];
  std::snprintf(checksum, sizeof checksum, "{\"checksum\":\"%016lx\"%s",
                XXH3_64bits(text.data(), text.size()), json.empty() ? "" : ",");
  return checksum + text.substr(1);
}

}  // namespace ladder
