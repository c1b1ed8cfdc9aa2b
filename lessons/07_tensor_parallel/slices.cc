#include "lessons/07_tensor_parallel/slices.h"

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

}  // namespace ladder
