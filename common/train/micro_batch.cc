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

size_t largest_full(const Layout& layout) {
  return largest_parameter(layout, [](const Parameter& p) { return p.full_shape.num_elements(); });
}

}  // namespace

BatchLoader::BatchLoader(const TrainerContext& context)
    : context_(context),
      tokens_(token_tensor(context.device_memory, context.config)),
      targets_(token_tensor(context.device_memory, context.config)),
      host_tokens_(token_tensor(context.host_memory, context.config)),
      host_targets_(token_tensor(context.host_memory, context.config)) {}

size_t BatchLoader::num_bytes(const RunConfig& config) {
  return 2 * micro_batch_rows(config) * size_of(DType::int32);
}

void BatchLoader::load(Split split, int64_t step, size_t first_row) {
  // The copies of the micro-batch before have passed: its losses were computed from them.
  context_.stream.synchronize();
  fill_batch(context_.corpus, split, context_.config.seed, static_cast<uint64_t>(step), first_row,
             host_tokens_, host_targets_);
  copy(context_.stream, tokens_, host_tokens_);
  copy(context_.stream, targets_, host_targets_);
}

LossSum::LossSum(const TrainerContext& context, size_t num_micro_batches)
    : stream_(context.stream),
      sums_(context.device_memory, Category::workspace, DType::fp64, {num_micro_batches}),
      workspace_(context.device_memory, Category::workspace, DType::fp64,
                 {sum_workspace_elements(micro_batch_rows(context.config))}) {}

size_t LossSum::num_bytes(const RunConfig& config, size_t num_micro_batches) {
  return size_of(DType::fp64) *
         (num_micro_batches + sum_workspace_elements(micro_batch_rows(config)));
}

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

ParameterStaging::ParameterStaging(const TrainerContext& context, const Layout& layout)
    : stream_(context.stream),
      layout_(layout),
      host_(context.host_memory, Category::workspace, context.config.accumulation(),
            {largest_full(layout)}) {}

size_t ParameterStaging::num_bytes(const Layout& layout, DType dtype) {
  return largest_full(layout) * size_of(accumulation_dtype(dtype));
}

TensorView ParameterStaging::host_as(DType dtype, const Shape& shape) const {
  return TensorView(host_.view().data(), dtype, DeviceType::cpu, shape);
}

void ParameterStaging::load(const WeightsFile& file, size_t first, TensorView span) {
  for_parameters_in(
      layout_, first, first + span.num_elements(),
      [&](const Parameter& parameter, size_t begin, size_t from, size_t to) {
        const TensorView host = host_as(span.dtype(), parameter.full_shape);
        file.read(parameter, host);
        for_runs_in(parameter, from - begin, to - begin, [&](size_t run, size_t at, size_t count) {
          copy(stream_, span.elements(begin + run - first, {count}), host.elements(at, {count}));
        });
        stream_.synchronize();
      });
}

void ParameterStaging::visit(ConstTensorView flat, const TensorSink& sink) {
  for (const Unit& unit : layout_.units()) {
    for (const Parameter& parameter : unit.parameters) {
      const TensorView host = host_as(flat.dtype(), parameter.shape);
      copy(stream_, host, flat.elements(unit.offset + parameter.offset, parameter.shape));
      stream_.synchronize();
      sink(parameter, host);
    }
  }
}

}  // namespace ladder
