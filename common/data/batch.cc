#include "common/data/batch.h"

#include "kernels/runtime/check.h"
#include "kernels/runtime/random.h"

namespace ladder {

void fill_batch(const Corpus& corpus, Split split, uint64_t seed, uint64_t step, uint64_t first_row,
                TensorView tokens, TensorView targets) {
  const Shape& shape = tokens.shape();
  check(shape.num_dims() == 2, "fill_batch: argument `tokens` must have two dimensions");
  check_argument("fill_batch", "tokens", tokens, DeviceType::cpu, DType::int32, shape);
  check_argument("fill_batch", "targets", targets, DeviceType::cpu, DType::int32, shape);
  const size_t num_rows = shape[0], sequence_length = shape[1];
  const size_t begin = corpus.begin(split), count = corpus.end(split) - begin;
  check(count > sequence_length, "fill_batch: the split is shorter than one row");

  const size_t num_windows = count - sequence_length;
  const uint64_t key = random_key(seed, split == Split::train ? "data.train" : "data.validation");
  for (size_t row = 0; row < num_rows; ++row) {
    const size_t start = begin + random_below(num_windows, random_word(key, step, first_row + row));
    int32_t* token_row = tokens.as<int32_t>() + row * sequence_length;
    int32_t* target_row = targets.as<int32_t>() + row * sequence_length;
    for (size_t t = 0; t < sequence_length; ++t) {
      token_row[t] = corpus.token(start + t);
      target_row[t] = corpus.token(start + t + 1);
    }
  }
}

}  // namespace ladder
