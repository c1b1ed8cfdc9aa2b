#include "lessons/07_tensor_parallel/slices.h"

namespace ladder {
namespace {

bool divides(const Gpt2Config& config, size_t tensor_size) {
  const size_t most_tokens = (config.vocab_size + tensor_size - 1) / tensor_size;
  return config.num_heads % tensor_size == 0 && most_tokens * (tensor_size - 1) < config.vocab_size;
}

}  // namespace

void check_slices(const Gpt2Config& config, size_t tensor_size) {
  if (divides(config, tensor_size)) return;
  size_t works = tensor_size;
  while (!divides(config, works)) --works;
  throw UserError(concat("--tensor-parallel-size ", tensor_size, ": ",
                         counted(config.num_heads, "head"), " and a vocabulary of ",
                         counted(config.vocab_size, "token"),
                         " cannot be split among so many ranks; ", works, " would do"));
}

Traffic tensor_traffic(const RunConfig& config, const Layout& layout, size_t num_micro_batches) {
  const size_t rows = config.micro_batch_size * config.model.sequence_length;
  const size_t c = config.model.hidden;
  const bool tokens = layout.embeds_tokens(), classifier = layout.has_classifier();
  const size_t row_blocks = (rows + kClassifierRows - 1) / kClassifierRows;
  const size_t full = 4 * layout.num_layers() + tokens + classifier;
  const size_t row =
      full * c * size_of(config.dtype) + (classifier ? 3 * size_of(config.accumulation()) : 0);
  return Traffic{.calls = full + (classifier ? 2 * row_blocks : 0), .payload_bytes = rows * row}
      .times(num_micro_batches);
}

}  // namespace ladder
