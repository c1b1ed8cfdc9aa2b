#include "common/train/trainer/micro_batch.h"

#include <algorithm>
#include <span>
#include <vector>

#include "common/data/batch.h"
#include "kernels/norm.h"

namespace ladder {
namespace {

Tensor int32_tensor(Memory& memory, const Shape& shape) {
  return Tensor(memory, Category::workspace, DType::int32, shape);
}

// Moves the tokens at the given positions of each sequence of (B, T) to the front of the memory.
void gather(TensorView tokens, const std::vector<int32_t>& positions) {
  const size_t batch = tokens.shape()[0], length = tokens.shape()[1], count = positions.size();
  int32_t* const token = tokens.as<int32_t>();
  // Positions increase, so no token is overwritten before it has been moved.
  for (size_t b = 0; b < batch; ++b) {
    for (size_t t = 0; t < count; ++t) {
      token[b * count + t] = token[b * length + static_cast<size_t>(positions[t])];
    }
  }
}

}  // namespace

BatchLoader::BatchLoader(const TrainerContext& context, const SequenceSlice& part)
    : context_(context), part_(part) {
  const size_t batch = context.config.micro_batch_size;
  const size_t length = context.config.model.sequence_length, most = part.capacity(length);
  tokens_ = int32_tensor(context.device_memory, {batch * most});
  targets_ = int32_tensor(context.device_memory, {batch * most});
  host_tokens_ = int32_tensor(context.host_memory, {batch, length});
  host_targets_ = int32_tensor(context.host_memory, {batch, length});
  if (part.is_whole()) return;
  positions_ = int32_tensor(context.device_memory, {most});
  host_positions_ = int32_tensor(context.host_memory, {most});
}

TensorView BatchLoader::front_of(const Tensor& tokens) const {
  const RunConfig& config = context_.config;
  return tokens.view().elements(
      0, {config.micro_batch_size, part_.num_tokens(config.model.sequence_length)});
}

TensorView BatchLoader::positions() const {
  return part_.is_whole() ? TensorView() : positions_.view().rows(0, part_.positions.size());
}

// Fills the host's tensors.
void BatchLoader::fill(Split split, int64_t step, size_t first_sequence) {
  fill_batch(context_.corpus, split, context_.config.seed, static_cast<uint64_t>(step),
             first_sequence, host_tokens_, host_targets_, context_.config.masking());
  if (!part_.is_whole()) {
    gather(host_tokens_, part_.positions);
    gather(host_targets_, part_.positions);
    std::ranges::copy(part_.positions, host_positions_.view().as<int32_t>());
  }
  if (context_.counted == nullptr) return;
  const TensorView loaded = front_of(host_targets_);
  const std::span all(loaded.as<int32_t>(), loaded.num_elements());
  num_counted_ = all.size() - static_cast<size_t>(std::ranges::count(all, kIgnored));
}

void BatchLoader::load(Split split, int64_t step, size_t first_sequence) {
  copied_->synchronize();
  if (Simulation::current() == nullptr) fill(split, step, first_sequence);
  if (!part_.is_whole()) {
    copy(context_.stream, positions(), host_positions_.view().rows(0, part_.positions.size()));
  }
  copy(context_.stream, tokens(), front_of(host_tokens_));
  copy(context_.stream, targets(), front_of(host_targets_));
  copied_->record(context_.stream);
}

LossSum::LossSum(const TrainerContext& context, size_t num_micro_batches, size_t rows)
    : stream_(context.stream),
      sums_(context.device_memory, Category::workspace, DType::fp64, {num_micro_batches}),
      workspace_(context.device_memory, Category::workspace, DType::fp64,
                 {sum_workspace_elements(rows)}) {}

void LossSum::add(ConstTensorView losses) {
  sum(stream_, sums_.view().rows(count_++, 1), workspace_, losses);
}

double LossSum::total() {
  if (count_ == 0) return 0;
  std::vector<double> host(count_);
  copy(stream_, TensorView(host.data(), DType::fp64, DeviceType::cpu, {count_}),
       sums_.view().rows(0, count_));
  stream_.synchronize();
  count_ = 0;
  double total = 0;
  for (double loss : host) total += loss;
  return total;
}

}  // namespace ladder
