// Batches: the tokens of every sequence in every step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/data/masking.h"
#include "kernels/runtime/target.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// Fills tokens and targets with sequences of the global batch of `step`, beginning with number
// first_sequence. A sequence is a window of T + 1 consecutive tokens of the split: `tokens` gets
// the first T of them, `targets` the last T, so that targets[i, t] follows tokens[i, t].
//   tokens (num_sequences, T) out · targets (num_sequences, T) out, both int32 in host memory
// The beginning of a window is uniform over the split, and depends only on seed, split, step and
// the number of the sequence in the global batch. So ranks and micro-batches may divide the global
// batch in any way: its sequences are the same. REQUIRES: corpus.require(vocabulary, T) has passed.
//
// If the corpus has examples a sequence is one of them, drawn in the same way. What is left of the
// T tokens is padding: any token, with the target kIgnored.
//
// With `masking` a window has the T tokens alone. Some are hidden, and targets[i, t] is what was at
// tokens[i, t], or kIgnored (MaskDraws). REQUIRES: the corpus has no examples.
void fill_batch(const Corpus& corpus, Split split, uint64_t seed, uint64_t step,
                uint64_t first_sequence, TensorView tokens, TensorView targets,
                const std::optional<Masking>& masking = {});

// Returns how many targets of the first num_sequences sequences of the global batch of `step` count
// (are not kIgnored). fill_batch() is a function of the same arguments, so every rank knows this
// number of the whole global batch, and need not be told what other ranks have.
size_t counted_targets(const Corpus& corpus, Split split, uint64_t seed, uint64_t step,
                       size_t num_sequences, size_t sequence_length,
                       const std::optional<Masking>& masking = {});

// Returns how many tokens of each sequence are not padding, of those that fill_batch() fills with
// the same arguments. Empty: the corpus has no examples, and so there is no padding.
std::vector<size_t> unpadded_lengths(const Corpus& corpus, Split split, uint64_t seed,
                                     uint64_t step, uint64_t first_sequence, size_t num_sequences);

}  // namespace ladder
