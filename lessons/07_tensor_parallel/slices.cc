#include "lessons/07_tensor_parallel/slices.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace ladder {
namespace {

bool divides(const Gpt2Config& config, size_t tensor_size) {
  const size_t most_tokens = (config.vocab_size + tensor_size - 1) / tensor_size;
  return config.num_heads % tensor_size == 0 && most_tokens * (tensor_size - 1) < config.vocab_size;
}

// Elements of the largest split tensor, in full.
size_t largest_full(const Layout& layout) {
  size_t largest = 0;
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) {
      if (parameter.split) largest = std::max(largest, parameter.full_shape.num_elements());
    }
  }
  return largest;
}

// Of the first rank: no other rank's is larger.
size_t largest_slice(const Layout& layout) {
  size_t largest = 0;
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) {
      if (parameter.split) largest = std::max(largest, parameter.shape.num_elements());
    }
  }
  return largest;
}

}  // namespace

void check_slices(const Gpt2Config& config, size_t tensor_size) {
  if (divides(config, tensor_size)) return;
  size_t works = tensor_size;
  while (!divides(config, works)) --works;
  throw UserError(concat("--tensor-parallel-size ", tensor_size, ": ", config.num_heads,
                         " heads and a vocabulary of ", config.vocab_size,
                         " tokens cannot be split among so many ranks; ", works, " would do"));
}

Traffic tensor_traffic(const RunConfig& config, const Layout& layout, size_t num_micro_batches) {
  const size_t rows = config.micro_batch_size * config.model.sequence_length;
  const size_t c = config.model.hidden;
  const bool tokens = layout.embeds_tokens(), classifier = layout.has_classifier();
  const size_t row_blocks = (rows + kClassifierRows - 1) / kClassifierRows;
  const size_t full = 4 * layout.num_layers() + tokens + classifier;
  return Traffic{.calls = full + (classifier ? 2 * row_blocks : 0),
                 .payload_bytes = rows * (full * c + (classifier ? 3 : 0)) * size_of(config.dtype)}
      .times(num_micro_batches);
}

SliceCollector::SliceCollector(const TrainerContext& context, const Layout& layout)
    : ranks_(context.groups->tensor()) {
  if (num_bytes(layout, context.config.dtype) == 0) return;
  const auto make = [&](size_t elements) {
    return Tensor(context.host_memory, Category::workspace, context.config.dtype, {elements});
  };
  full_ = make(largest_full(layout));
  slice_ = make(largest_slice(layout));
}

size_t SliceCollector::num_bytes(const Layout& layout, DType dtype) {
  if (layout.part().tensor_rank != 0) return 0;
  return (largest_full(layout) + largest_slice(layout)) * size_of(dtype);
}

// Slices follow one another: rank r's runs begin r runs behind the first rank's.
void SliceCollector::place(const Parameter& parameter, size_t rank, ConstTensorView slice,
                           TensorView full) {
  Parameter theirs = parameter;
  theirs.runs.first = rank * parameter.runs.length;
  for_runs_in(theirs, 0, slice.num_elements(), [&](size_t from, size_t at, size_t count) {
    copy(host_stream_, full.elements(at, {count}), slice.elements(from, {count}));
  });
}

TensorSink SliceCollector::joined(const TensorSink& sink) {
  return [this, sink](const Parameter& parameter, ConstTensorView own) {
    const CallOptions options;
    if (!parameter.split) {
      if (ranks_.rank() == 0) sink(parameter, own);
      return;
    }
    if (ranks_.rank() != 0) return ranks_.send(host_stream_, own, 0, options).wait(host_stream_);
    const TensorView full = full_.view().elements(0, parameter.full_shape);
    place(parameter, 0, own, full);
    for (size_t r = 1; r < ranks_.size(); ++r) {
      // The last ranks may have less of the vocabulary.
      const size_t behind = full.num_elements() - r * parameter.runs.length;
      const TensorView slice = slice_.view().rows(0, std::min(own.num_elements(), behind));
      ranks_.recv(host_stream_, slice, r, options).wait(host_stream_);
      place(parameter, r, slice, full);
    }
    sink(parameter, full);
  };
}

}  // namespace ladder
