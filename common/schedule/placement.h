// Where a model's chunks lie on the stages of a pipeline.
#pragma once

#include <cstddef>

namespace ladder {

// A chunk by its stage, and its number on the stage.
struct StageChunk {
  size_t stage = 0, chunk = 0;

  bool operator==(const StageChunk&) const = default;
};

// The model is cut into p v virtual stages, which a micro-batch goes through in order; each of p
// stages holds v of them, its chunks. They go down the line of stages, p at a time. Then they
// either begin anew at the first stage (looped [Narayanan21 2.2]), or turn around (V [Qi24]). With
// p = 3, v = 2:
//             stage 0   stage 1   stage 2
//   looped    0, 3      1, 4      2, 5       virtual stage 2 sends to stage 0
//   V         0, 5      1, 4      2, 3       stage 2 goes on with virtual stage 3 itself
struct ChunkPlacement {
  size_t num_stages = 1, num_chunks = 1;  // num_chunks: of each stage
  bool is_v = false;

  bool operator==(const ChunkPlacement&) const = default;
  size_t num_virtual_stages() const { return num_stages * num_chunks; }
  // Returns the virtual stage that is chunk `chunk` of the stage.
  size_t virtual_stage_at(size_t stage, size_t chunk) const {
    return chunk * num_stages + (turns_back(chunk) ? num_stages - 1 - stage : stage);
  }
  StageChunk chunk_of(size_t v) const {
    const size_t chunk = v / num_stages, at = v % num_stages;
    return {turns_back(chunk) ? num_stages - 1 - at : at, chunk};
  }

 private:
  bool turns_back(size_t chunk) const { return is_v && chunk % 2 == 1; }
};

}  // namespace ladder
