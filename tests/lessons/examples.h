// Examples drawn at random: rows of which any number of tokens count, also none.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include "common/train/trainer/config.h"
#include "kernels/runtime/target.h"
#include "tests/lessons/session.h"

namespace ladder::testing {

// Returns sixty examples for the run, from one token to as many as a sequence has. Of a third of
// them no token counts.
inline Corpus corpus_of_examples(const RunConfig& config, uint64_t seed) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  const auto below = [&](size_t bound) { return static_cast<int32_t>(random() % bound); };
  Examples examples;
  for (size_t i = 0; i < 60; ++i) {
    const auto length = static_cast<size_t>(below(config.model.sequence_length)) + 1;
    const size_t share = i % 3;  // of tokens that count, in thirds
    std::vector<int32_t> tokens, targets;
    for (size_t t = 0; t < length; ++t) {
      tokens.push_back(below(config.model.vocab_size));
      const bool counts = static_cast<size_t>(below(3)) < share;
      targets.push_back(counts ? below(config.model.vocab_size) : kIgnored);
    }
    examples.add(tokens, targets);
  }
  return Corpus::of_examples("examples", std::move(examples), false);
}

}  // namespace ladder::testing
