#include "common/data/batch.h"

#include <algorithm>
#include <vector>

#include "kernels/runtime/check.h"
#include "kernels/runtime/random.h"

namespace ladder {
namespace {

// Draws a number below `count` for each sequence of a global batch.
class Draws {
 public:
  Draws(Split split, uint64_t seed, uint64_t step)
      : key_(random_key(seed, split == Split::train ? "data.train" : "data.validation")),
        step_(step) {}
  size_t operator()(size_t count, uint64_t sequence) const {
    return random_below(count, random_word(key_, step_, sequence));
  }

 private:
  uint64_t key_, step_;
};

// Fills one sequence with an example, and pads it.
void fill_sequence(const Example& example, std::span<int32_t> tokens, std::span<int32_t> targets) {
  const size_t count = example.tokens.size();
  check(count <= tokens.size(), "fill_batch: an example is longer than a sequence");
  std::ranges::fill(std::ranges::copy(example.tokens, tokens.begin()).out, tokens.end(), 0);
  std::ranges::fill(std::ranges::copy(example.targets, targets.begin()).out, targets.end(),
                    kIgnored);
}

}  // namespace

void fill_batch(const Corpus& corpus, Split split, uint64_t seed, uint64_t step,
                uint64_t first_sequence, TensorView tokens, TensorView targets,
                const std::optional<Masking>& masking) {
  const Shape& shape = tokens.shape();
  check(shape.num_dims() == 2, "fill_batch: argument `tokens` must have two dimensions");
  check_argument("fill_batch", "tokens", tokens, DeviceType::cpu, DType::int32, shape);
  check_argument("fill_batch", "targets", targets, DeviceType::cpu, DType::int32, shape);
  const size_t num_sequences = shape[0], sequence_length = shape[1];
  const Draws draw(split, seed, step);
  const auto row = [&](TensorView all, size_t i) {
    return std::span(all.as<int32_t>() + i * sequence_length, sequence_length);
  };
  check(!masking || !corpus.has_examples(), "fill_batch: examples have targets of their own");
  if (corpus.has_examples()) {
    const size_t count = corpus.num_examples(split);
    for (size_t i = 0; i < num_sequences; ++i) {
      fill_sequence(corpus.example(split, draw(count, first_sequence + i)), row(tokens, i),
                    row(targets, i));
    }
    return;
  }
  const size_t begin = corpus.begin(split), count = corpus.end(split) - begin;
  check(count > sequence_length, "fill_batch: the split is shorter than one sequence");

  std::vector<int32_t> window(sequence_length + 1);
  const size_t num_windows = count - sequence_length;
  std::optional<MaskDraws> masks;
  if (masking) masks.emplace(*masking, split, seed, step);
  for (size_t i = 0; i < num_sequences; ++i) {
    corpus.read(begin + draw(num_windows, first_sequence + i), window);
    std::copy(window.begin(), window.end() - 1, row(tokens, i).begin());
    std::copy(window.begin() + 1, window.end(), row(targets, i).begin());
    if (masks) masks->hide(first_sequence + i, row(tokens, i), row(targets, i));
  }
}

size_t counted_targets(const Corpus& corpus, Split split, uint64_t seed, uint64_t step,
                       size_t num_sequences, size_t sequence_length,
                       const std::optional<Masking>& masking) {
  if (every_target_counts(corpus, masking)) return num_sequences * sequence_length;
  size_t counted = 0;
  if (masking) {
    const MaskDraws draws(*masking, split, seed, step);
    for (size_t i = 0; i < num_sequences; ++i) counted += draws.count(i, sequence_length);
    return counted;
  }
  const Draws draw(split, seed, step);
  const size_t count = corpus.num_examples(split);
  for (size_t i = 0; i < num_sequences; ++i) {
    counted += corpus.example(split, draw(count, i)).num_counted();
  }
  return counted;
}

std::vector<size_t> unpadded_lengths(const Corpus& corpus, Split split, uint64_t seed,
                                     uint64_t step, uint64_t first_sequence, size_t num_sequences) {
  std::vector<size_t> lengths;
  const Draws draw(split, seed, step);
  for (size_t i = 0; corpus.has_examples() && i < num_sequences; ++i) {
    const size_t index = draw(corpus.num_examples(split), first_sequence + i);
    lengths.push_back(corpus.example(split, index).tokens.size());
  }
  return lengths;
}

}  // namespace ladder
