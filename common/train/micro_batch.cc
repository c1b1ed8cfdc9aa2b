#include "common/train/micro_batch.h"

#include <algorithm>
#include <vector>

#include "common/data/batch.h"
#include "kernels/norm.h"

namespace ladder {
namespace {

Tensor token_tensor(Memory& memory, const RunConfig& config) {
  return Tensor(memory, Category::workspace, DType::int32,
                {config.micro_batch_size, config.model.sequence_length});
}

size_t micro_batch_rows(const RunConfig& config) {
  return config.micro_batch_size * config.model.sequence_length;
}

}  // namespace

BatchLoader::BatchLoader(const TrainerContext& context)
    : context_(context),
      tokens_(token_tensor(context.device_memory, context.config)),
      targets_(token_tensor(context.device_memory, context.config)),
      host_tokens_(token_tensor(context.host_memory, context.config)),
      host_targets_(token_tensor(context.host_memory, context.config)) {}

void BatchLoader::load(Split split, int64_t step, size_t first_sequence) {
  // The host's tokens may be overwritten only when the copies of the last micro-batch have run.
  context_.stream.synchronize();
  fill_batch(context_.corpus, split, context_.config.seed, static_cast<uint64_t>(step),
             first_sequence, host_tokens_, host_targets_);
  copy(context_.stream, tokens_, host_tokens_);
  copy(context_.stream, targets_, host_targets_);
}

LossSum::LossSum(const TrainerContext& context, size_t num_micro_batches)
    : stream_(context.stream),
      sums_(context.device_memory, Category::workspace, DType::fp64, {num_micro_batches}),
      workspace_(context.device_memory, Category::workspace, DType::fp64,
                 {sum_workspace_elements(micro_batch_rows(context.config))}) {}

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
