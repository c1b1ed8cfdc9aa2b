// The masked objective [Devlin18 BERT, 3.1]: a few tokens of a sequence are chosen, most of them
// are hidden, and the model learns what stood there, from all that is left before and after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/data/corpus.h"

namespace ladder {

// How many of 100 tokens are chosen; how many of 100 chosen ones become the mask token; how many
// become another token. The others stay as they are: fine-tuning shows no masks, so the model must
// not learn that tokens without a mask need no thought.
inline constexpr uint32_t kChosenPercent = 15, kMaskPercent = 80, kRandomPercent = 10;

// The mask token is the last of the vocabulary. Data must not have it (Corpus::require). Texts do
// not: a byte of 255 is in no UTF-8. So a model has the same sizes with both objectives, and each
// may begin with weights of the other.
struct Masking {
  size_t vocab_size = 0;

  int32_t mask_token() const { return static_cast<int32_t>(vocab_size - 1); }
};

// Returns whether no target is kIgnored: tokens are not masked, and the corpus has no examples.
inline bool every_target_counts(const Corpus& corpus, const std::optional<Masking>& masking) {
  return !masking && !corpus.has_examples();
}

// Chooses tokens of the sequences of one global batch. Whether a token is chosen, and what becomes
// of it, depends only on seed, split, step, the number of its sequence in the global batch, and its
// position. So any division of the global batch among ranks and micro-batches chooses the same.
class MaskDraws {
 public:
  MaskDraws(const Masking& masking, Split split, uint64_t seed, uint64_t step);

  // Changes the chosen tokens of a sequence. Sets targets (of the same length) to what a chosen
  // token was, and to kIgnored for all others.
  void hide(uint64_t sequence, std::span<int32_t> tokens, std::span<int32_t> targets) const;
  // Returns how many of a sequence's tokens are chosen.
  size_t count(uint64_t sequence, size_t sequence_length) const;

 private:
  Masking masking_;
  uint64_t key_, step_;
};

}  // namespace ladder
