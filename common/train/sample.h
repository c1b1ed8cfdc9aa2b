// Text from a trained model.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/train/trainer.h"

namespace ladder {

// Collects the parameters from `visit` into `memory`, runs the model on the CPU, and returns
// config.sample_tokens tokens, drawn one after the other from softmax(logits / temperature) over
// the top_k likeliest: as text where tokens are bytes, else as numbers. The same for the same
// parameters and seed. The context is the last sequence_length tokens. `visit` may hand the tensors
// over in any order. Throws Error unless each comes once.
// Text is printable(): a model that has learned little draws any byte. A token that is no byte
// comes as '?'.
std::string sample_text(const RunConfig& config, bool is_text, Memory& memory,
                        const std::function<void(const TensorSink&)>& visit);

// The token drawn from softmax(logits / temperature) over the top_k largest logits (0 = all), by
// `word`, 64 random bits. Temperature 0: the first of the largest.
int32_t draw_token(std::span<const double> logits, double temperature, size_t top_k, uint64_t word);

}  // namespace ladder
