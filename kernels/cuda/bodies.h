// The kernels' CUDA bodies: the functions of the headers above this folder, with arguments that
// have been checked. Asynchronous on the stream, which is on the build's CUDA device or its
// emulator.
#pragma once

#include "kernels/adamw.h"
#include "kernels/matmul.h"
#include "kernels/runtime/stream.h"

namespace ladder::cuda {

void matmul(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
            MatmulOptions options);
void set_tf32(bool on);
void add_bias(Stream& stream, TensorView out, ConstTensorView bias);
void bias_backward(Stream& stream, TensorView dbias, ConstTensorView dout);

void layernorm_forward(Stream& stream, TensorView out, TensorView mean, TensorView rstd,
                       ConstTensorView in, ConstTensorView weight, ConstTensorView bias);
void layernorm_backward(Stream& stream, TensorView din, TensorView dweight, TensorView dbias,
                        ConstTensorView dout, ConstTensorView in, ConstTensorView weight,
                        ConstTensorView mean, ConstTensorView rstd);

void gelu_forward(Stream& stream, TensorView out, ConstTensorView in);
void gelu_backward(Stream& stream, TensorView din, ConstTensorView dout, ConstTensorView in);

void attention_forward(Stream& stream, TensorView out, TensorView logsumexp, ConstTensorView qkv);
void attention_backward(Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                        ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv);

void embedding_forward(Stream& stream, TensorView out, ConstTensorView tokens,
                       ConstTensorView table, size_t first);
void embedding_backward(Stream& stream, TensorView dtable, ConstTensorView tokens,
                        ConstTensorView dout, size_t first);
void position_forward(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView table);
void position_backward(Stream& stream, TensorView dtable, ConstTensorView dout);

void softmax_maximum(Stream& stream, TensorView maximum, ConstTensorView logits);
void softmax_exponentials(Stream& stream, TensorView logits, TensorView sum,
                          TensorView target_logit, ConstTensorView targets, ConstTensorView maximum,
                          size_t first);
void cross_entropy(Stream& stream, TensorView losses, TensorView dlogits,
                   ConstTensorView exponentials, ConstTensorView sum, ConstTensorView target_logit,
                   ConstTensorView targets, size_t first, double loss_scale);
void cross_entropy_loss(Stream& stream, TensorView losses, ConstTensorView sum,
                        ConstTensorView target_logit);

void adamw(Stream& stream, TensorView param, TensorView exp_avg, TensorView exp_avg_sq,
           ConstTensorView grad, const AdamWStep& step);

void squared_norm(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in);
void sum(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in);

void fill(Stream& stream, TensorView out, double value);
void add(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b);
void scale(Stream& stream, TensorView out, ConstTensorView in, double factor);
void cast(Stream& stream, TensorView out, ConstTensorView in);
void fill_normal(Stream& stream, TensorView out, uint64_t key, uint64_t first, double deviation);
void add_residual(Stream& stream, TensorView out, ConstTensorView residual, ConstTensorView update,
                  ConstTensorView bias);

}  // namespace ladder::cuda
