// Draws text from a trained model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "common/data/tokenizer.h"
#include "common/train/trainer/trainer.h"

namespace ladder {

// Returns a sample of config.sample_tokens tokens. Each token is drawn from softmax(logits /
// temperature) over the top_k most likely tokens, given the last sequence_length tokens. They
// continue `prompt`, with which the sample then begins; without a prompt they continue the token
// `first`, which the sample does not show. The same parameters, the same beginning and the same
// seed give the same sample. The model runs on the CPU, on a copy of the parameters in `memory`,
// which `visit` gives in any order; an Error is thrown unless each comes once.
//
// If tokens are bytes the sample is printable() text: a model that has learned little draws any
// byte, and a token that is not a byte becomes '?'. Otherwise the sample has the tokens' numbers,
// or what the vocabulary's tokenizer makes of them, which is also printable(). `mixture` makes the
// experts of a model that has some.
std::string sample_text(const RunConfig& config, const Vocabulary& vocabulary, int32_t first,
                        Memory& memory, const std::function<void(const TensorSink&)>& visit,
                        const MixtureMaker& mixture = nullptr,
                        std::span<const int32_t> prompt = {});

// Returns a token drawn from softmax(logits / temperature) over the top_k largest logits (0 = all).
// `word` has the 64 random bits that decide. At temperature 0 it is the first of the largest.
int32_t draw_token(std::span<const double> logits, double temperature, size_t top_k, uint64_t word);

}  // namespace ladder
