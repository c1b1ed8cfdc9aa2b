#include "lessons/09_3d_parallel/scattered_messages.h"

namespace ladder {
namespace {

// Returns the part of a message that this rank carries. All heads together have C numbers and are
// split evenly, so t divides C.
template <class View>
View own_part(const View& message, const Communicator& tensor_group) {
  const size_t count = message.num_elements() / tensor_group.size();
  return message.elements(tensor_group.rank() * count, {count});
}

}  // namespace

Work ScatteredPipeline::recv(Communicator& link, TensorView buffer, size_t stage) {
  const TensorView part = own_part(buffer, tensor_group());
  PipelineExecutor::recv(link, part, stage).wait(context_.stream);
  return tensor_group().all_gather(context_.stream, buffer, part, {.purpose = Purpose::activation});
}

Work ScatteredPipeline::send(Communicator& link, ConstTensorView buffer, size_t stage) {
  return PipelineExecutor::send(link, own_part(buffer, tensor_group()), stage);
}

}  // namespace ladder
