#include "lessons/07_tensor_parallel/slices.h"

#include "common/model/classifier.h"

namespace ladder {

TensorParallel tensor_parallel_on(Communicator& ranks) {
  if (ranks.size() == 1) return {};
  const auto begin_sum = [&ranks](Stream& stream, TensorView view,
                                  Reduction reduction = Reduction::sum) {
    return ranks.all_reduce(stream, view, {.purpose = Purpose::activation, .reduction = reduction});
  };
  TensorParallel points;
  points.enter_backward = [=](Stream& stream, TensorView d_in) {
    return TensorParallel::Pending{d_in, begin_sum(stream, d_in)};
  };
  points.leave = [=](Stream& stream, TensorView partial) {
    begin_sum(stream, partial).wait(stream);
    return ConstTensorView(partial);
  };
  points.reduce_statistics = [=](Stream& stream, TensorView statistics, Reduction reduction) {
    begin_sum(stream, statistics, reduction).wait(stream);
  };
  return points;
}

Traffic tensor_traffic(const RunConfig& config, const Layout& layout, size_t num_micro_batches,
                       size_t num_in_flight) {
  const size_t rows = config.micro_batch_size * config.model.sequence_length;
  size_t sums = 0;  // how often the ranks sum R C elements
  for (const Operation& operation : layout.operations()) sums += operation.tensor_sums;
  const size_t num_blocks = layout.count(OperationKind::block);
  const RecomputePlan recompute = plan_recompute(config.recompute, num_blocks, num_in_flight);
  for (size_t block = 0; block < num_blocks; ++block) {
    sums += (recompute.recomputed(block) & in_all_sublayers(SublayerOperation::second)).count();
  }
  Traffic traffic = {.calls = sums,
                     .payload_bytes = sums * rows * config.model.hidden * size_of(config.dtype)};
  if (layout.has(OperationKind::classifier)) {
    const size_t block_rows = classifier_rows(config.device);
    traffic.calls += 2 * ((rows + block_rows - 1) / block_rows);
    traffic.payload_bytes += 3 * rows * size_of(config.accumulation());
  }
  return traffic.times(num_micro_batches);
}

}  // namespace ladder
