#include "common/data/batch.h"

#include <algorithm>
#include <vector>

#include "kernels/runtime/check.h"
#include "kernels/runtime/random.h"

namespace ladder {

void fill_batch(const Corpus& corpus, Split split, uint64_t seed, uint64_t step,
                uint64_t first_sequence, TensorView tokens, TensorView targets) {
  const Shape& shape = tokens.shape();
  check(shape.num_dims() == 2, "fill_batch: argument `tokens` must have two dimensions");
  check_argument("fill_batch", "tokens", tokens, DeviceType::cpu, DType::int32, shape);
  check_argument("fill_batch", "targets", targets, DeviceType::cpu, DType::int32, shape);
  const size_t num_sequences = shape[0], sequence_length = shape[1];
  const size_t begin = corpus.begin(split), count = corpus.end(split) - begin;
  check(count > sequence_length, "fill_batch: the split is shorter than one sequence");

  std::vector<int32_t> window(sequence_length + 1);
  const size_t num_windows = count - sequence_length;
  const uint64_t key = random_key(seed, split == Split::train ? "data.train" : "data.validation");
  for (size_t i = 0; i < num_sequences; ++i) {
    const size_t start =
        begin + random_below(num_windows, random_word(key, step, first_sequence + i));
    corpus.read(start, window);
    std::copy(window.begin(), window.end() - 1, tokens.as<int32_t>() + i * sequence_length);
    std::copy(window.begin() + 1, window.end(), targets.as<int32_t>() + i * sequence_length);
  }
}

}  // namespace ladder
