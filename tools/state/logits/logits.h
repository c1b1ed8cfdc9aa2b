// The logits of a model in a folder, as --export writes it or transformers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/runtime/dtype.h"

namespace ladder {

struct Logits {
  size_t vocab_size = 0;
  std::vector<double> values;  // (T, V): those of the token that follows each of the T tokens
};

// Computes the logits in `dtype`, on the CPU. The folder has a config.json beside the weights.
// `adapters` is a folder of peft with adapters for them, or "": then there are none. Throws
// UserError if the folder cannot be used, if there are no tokens or more than the model has
// positions, or if a token is not below the vocabulary.
Logits logits_of(const std::string& folder, const std::vector<int32_t>& tokens, DType dtype,
                 const std::string& adapters = "");

}  // namespace ladder
