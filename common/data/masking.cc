#include "common/data/masking.h"

#include "kernels/runtime/check.h"
#include "kernels/runtime/random.h"
#include "kernels/runtime/target.h"

namespace ladder {
namespace {

// The random numbers of one token: 32 bits for each decision.
struct Draw {
  Draw(uint64_t key, uint64_t step, uint64_t token) {
    const auto words = philox(key, step, token);
    chosen = below(100, words[0]) < kChosenPercent;
    percent = below(100, words[1]);
    word = words[2];
  }
  static uint32_t below(uint64_t bound, uint32_t random) {
    return static_cast<uint32_t>(bound * random >> 32);
  }

  bool chosen;
  uint32_t percent;  // of the chosen ones: which of the three
  uint32_t word;
};

}  // namespace

MaskDraws::MaskDraws(const Masking& masking, Split split, uint64_t seed, uint64_t step)
    : masking_(masking),
      key_(random_key(seed, split == Split::train ? "mask.train" : "mask.validation")),
      step_(step) {
  check(masking.vocab_size > 1, "MaskDraws: the vocabulary has nothing but the mask");
}

void MaskDraws::hide(uint64_t sequence, std::span<int32_t> tokens,
                     std::span<int32_t> targets) const {
  check(tokens.size() == targets.size(), "MaskDraws: as many targets as tokens");
  for (size_t t = 0; t < tokens.size(); ++t) {
    const Draw draw(key_, step_, sequence * tokens.size() + t);
    targets[t] = draw.chosen ? tokens[t] : kIgnored;
    if (!draw.chosen) continue;
    if (draw.percent < kMaskPercent) {
      tokens[t] = masking_.mask_token();
    } else if (draw.percent < kMaskPercent + kRandomPercent) {
      tokens[t] = static_cast<int32_t>(Draw::below(masking_.vocab_size - 1, draw.word));
    }
  }
}

size_t MaskDraws::count(uint64_t sequence, size_t sequence_length) const {
  size_t chosen = 0;
  for (size_t t = 0; t < sequence_length; ++t) {
    chosen += Draw(key_, step_, sequence * sequence_length + t).chosen ? 1 : 0;
  }
  return chosen;
}

}  // namespace ladder
