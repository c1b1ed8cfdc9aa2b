// The kernels' CPU bodies: the functions of the headers above this folder, with arguments that have
// been checked.
#pragma once

#include "kernels/adamw.h"
#include "kernels/matmul.h"
#include "kernels/runtime/stream.h"

namespace ladder::cpu {

void matmul(TensorView out, ConstTensorView a, ConstTensorView b, MatmulOptions options);
void add_bias(TensorView out, ConstTensorView bias);
void bias_backward(TensorView dbias, ConstTensorView dout);

void layernorm_forward(TensorView out, TensorView mean, TensorView rstd, ConstTensorView in,
                       ConstTensorView weight, ConstTensorView bias);
void layernorm_backward(TensorView din, TensorView dweight, TensorView dbias, ConstTensorView dout,
                        ConstTensorView in, ConstTensorView weight, ConstTensorView mean,
                        ConstTensorView rstd);

void gelu_forward(TensorView out, ConstTensorView in);
void gelu_backward(TensorView din, ConstTensorView dout, ConstTensorView in);

void attention_forward(TensorView out, TensorView logsumexp, ConstTensorView qkv);
void attention_backward(TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                        ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv);

void embedding_forward(TensorView out, ConstTensorView tokens, ConstTensorView table, size_t first);
void embedding_backward(TensorView dtable, ConstTensorView tokens, ConstTensorView dout,
                        size_t first);
void position_forward(TensorView out, ConstTensorView in, ConstTensorView table);
void position_backward(TensorView dtable, ConstTensorView dout);

void softmax_maximum(TensorView maximum, ConstTensorView logits);
void softmax_exponentials(TensorView logits, TensorView sum, TensorView target_logit,
                          ConstTensorView targets, ConstTensorView maximum, size_t first);
void cross_entropy(TensorView losses, TensorView dlogits, ConstTensorView exponentials,
                   ConstTensorView sum, ConstTensorView target_logit, ConstTensorView targets,
                   size_t first, double loss_scale);
void cross_entropy_loss(TensorView losses, ConstTensorView sum, ConstTensorView target_logit);

void adamw(TensorView param, TensorView exp_avg, TensorView exp_avg_sq, ConstTensorView grad,
           const AdamWStep& step);

void squared_norm(TensorView out, TensorView workspace, ConstTensorView in);
void sum(TensorView out, TensorView workspace, ConstTensorView in);

void fill(TensorView out, double value);
void add(TensorView out, ConstTensorView a, ConstTensorView b);
void scale(TensorView out, ConstTensorView in, double factor);
void cast(TensorView out, ConstTensorView in);
void fill_normal(TensorView out, uint64_t key, uint64_t first, double deviation);
void add_residual(TensorView out, ConstTensorView residual, ConstTensorView update,
                  ConstTensorView bias);

}  // namespace ladder::cpu
