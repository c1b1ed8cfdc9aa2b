#include "common/data/masking.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "common/data/batch.h"
#include "kernels/runtime/target.h"
#include "tests/catch.h"
#include "tests/common/data/files.h"

namespace ladder {
namespace {

constexpr Masking kBytes = {256};  // the mask is 255
constexpr size_t kLength = 100;

struct Hidden {
  std::vector<int32_t> before, after, targets;
};

// A sequence of tokens 0, 1, 2, ... below 255, of which some are hidden.
Hidden hide(uint64_t sequence, Split split = Split::train, uint64_t seed = 1, uint64_t step = 1) {
  Hidden hidden;
  hidden.before.resize(kLength);
  std::iota(hidden.before.begin(), hidden.before.end(), static_cast<int32_t>(sequence % 150));
  hidden.after = hidden.before;
  hidden.targets.resize(kLength);
  MaskDraws(kBytes, split, seed, step).hide(sequence, hidden.after, hidden.targets);
  return hidden;
}

// Requires that `count` of n is within 5 standard deviations of n times `part`.
void require_part(size_t count, size_t n, double part) {
  const double all = static_cast<double>(n), deviation = std::sqrt(all * part * (1 - part));
  CAPTURE(count, n, part);
  CHECK(std::abs(static_cast<double>(count) - all * part) < 5 * deviation);
}

TEST_CASE("15 % of the tokens are chosen; 80 % of these are hidden, 10 % changed, 10 % kept") {
  size_t chosen = 0, masked = 0, changed = 0, all = 0;
  std::vector<size_t> of_position(kLength, 0), of_token(256, 0);
  constexpr size_t kSequences = 3000;
  for (uint64_t sequence = 0; sequence < kSequences; ++sequence) {
    const Hidden h = hide(sequence);
    for (size_t t = 0; t < kLength; ++t, ++all) {
      if (h.targets[t] == kIgnored) {
        REQUIRE(h.after[t] == h.before[t]);
        continue;
      }
      REQUIRE(h.targets[t] == h.before[t]);
      ++chosen;
      ++of_position[t];
      if (h.after[t] == kBytes.mask_token()) {
        ++masked;
      } else if (h.after[t] != h.before[t]) {
        REQUIRE((h.after[t] >= 0 && h.after[t] < 255));
        ++changed;
        ++of_token[static_cast<size_t>(h.after[t])];
      }
    }
  }
  require_part(chosen, all, 0.15);
  require_part(masked, chosen, 0.8);
  require_part(changed, chosen, 0.1 * 254 / 255);  // one random token in 255 is the old one
  for (const size_t count : of_position) require_part(count, kSequences, 0.15);
  for (size_t token = 0; token < 255; ++token) require_part(of_token[token], changed, 1.0 / 255);
}

TEST_CASE("what is hidden depends on seed, split, step, sequence and position alone") {
  const Hidden h = hide(7);
  CHECK(hide(7).after == h.after);
  CHECK(hide(7).targets == h.targets);
  CHECK(hide(7, Split::validation).targets != h.targets);
  CHECK(hide(7, Split::train, 2).targets != h.targets);
  CHECK(hide(7, Split::train, 1, 2).targets != h.targets);
  CHECK(hide(157).targets != h.targets);  // the same tokens
}

TEST_CASE("any division of a global batch hides the same, and so much is counted") {
  const Corpus corpus = Corpus::king_james();
  corpus.require(256, kLength, true);
  constexpr size_t kRows = 12;
  const auto fill = [&](size_t first, size_t rows, std::vector<int32_t>& tokens,
                        std::vector<int32_t>& targets) {
    std::vector<int32_t> some(rows * kLength), its(rows * kLength);
    const auto view = [&](std::vector<int32_t>& of) {
      return TensorView(of.data(), DType::int32, DeviceType::cpu, {rows, kLength});
    };
    fill_batch(corpus, Split::train, 3, 9, first, view(some), view(its), kBytes);
    tokens.insert(tokens.end(), some.begin(), some.end());
    targets.insert(targets.end(), its.begin(), its.end());
  };
  std::vector<int32_t> tokens, targets;
  fill(0, kRows, tokens, targets);
  for (const size_t rows : {1, 3, 4}) {
    std::vector<int32_t> same, its;
    for (size_t first = 0; first < kRows; first += rows) fill(first, rows, same, its);
    CHECK(same == tokens);
    CHECK(its == targets);
  }
  const auto ignored = static_cast<size_t>(std::ranges::count(targets, kIgnored));
  CHECK(ignored > targets.size() / 2);
  CHECK(counted_targets(corpus, Split::train, 3, 9, kRows, kLength, kBytes) ==
        targets.size() - ignored);
}

TEST_CASE("a corpus that has the mask token is refused") {
  const TestFolder folder;
  const std::string text = folder.write("text", std::string(99, 'a') + "\xff");
  const Corpus corpus = Corpus::open(text);
  corpus.require(256, 4);
  corpus.require(257, 4, true);
  CHECK_THROWS_WITH(corpus.require(256, 4, true),
                    "--data " + text +
                        ": token 255 at place 99 is not below the last token, which is the mask, "
                        "of the vocabulary of 256; this file needs --vocab 257 or more");
}

}  // namespace
}  // namespace ladder
