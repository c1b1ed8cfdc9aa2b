// Which keys attention's queries see.
#pragma once

#include "kernels/runtime/cost.h"

namespace ladder {

// A query sees the keys up to its own token, as in a model that continues text, or those of its
// whole sequence, as in an encoder [Devlin18 BERT].
enum class AttentionMask { causal, none };

// Returns how many of so many keys a query sees on average.
inline double keys_seen(AttentionMask mask, size_t tokens) {
  return number_of(tokens) / (mask == AttentionMask::causal ? 2 : 1);
}

}  // namespace ladder
