#include "common/train/trainer/attention.h"

#include <memory>

#include "kernels/cudnn_attention.h"

namespace ladder {

ContextParallel attention_of(const TrainerContext& context, const Layout& layout,
                             const SequenceSlice& part, const ContextParallel& own) {
  const RunConfig& config = context.config;
  const bool is_own = config.attention_kernel == AttentionKernel::own;
  if (is_own || !layout.has(OperationKind::block)) return own;
  check(part.is_whole(), "cuDNN's attention needs all tokens of a sequence");
  const size_t ranks = layout.part().tensor_size;
  const Sublayer attention = dense_sublayers(layout.config()).front();
  const auto cudnn = std::make_shared<CudnnAttention>(
      context.device_memory, config.dtype,
      Shape{config.micro_batch_size, config.model.sequence_length,
            config.model.query_columns() / ranks},
      config.model.num_heads / ranks, split_outputs(attention.first.parts, ranks));
  // Without a mask --attention-kernel refuses it.
  check(attention.mask == AttentionMask::causal, "cuDNN's attention has a causal mask");
  // In a simulation, which only counts, our own kernels stand in.
  return {.forward =
              [cudnn](Stream& stream, TensorView out, TensorView logsumexp, ConstTensorView qkv,
                      AttentionMask mask) {
                if (stream.simulation() != nullptr) {
                  return attention_forward(stream, out, logsumexp, qkv, mask);
                }
                cudnn->forward(stream, out, logsumexp, qkv);
              },
          .backward =
              [cudnn](Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                      ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv,
                      AttentionMask mask) {
                if (stream.simulation() != nullptr) {
                  return attention_backward(stream, dqkv, row_dot, dout, out, logsumexp, qkv, mask);
                }
                cudnn->backward(stream, dqkv, row_dot, dout, out, logsumexp, qkv);
              }};
}

}  // namespace ladder
