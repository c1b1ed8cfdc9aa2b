// What lies between the linear layers of an MLP, or of an expert: GELU or SwiGLU.
#pragma once

#include "common/model/sublayer.h"
#include "kernels/gelu.h"
#include "kernels/swiglu.h"

namespace ladder {

// Overwrites out with the core of `in`. Asynchronous on the stream.
inline void mlp_core_forward(Stream& stream, Core core, TensorView out, ConstTensorView in) {
  core == Core::swiglu ? swiglu_forward(stream, out, in) : gelu_forward(stream, out, in);
}

// Overwrites din with the gradient with respect to `in`. It may be `in`, and for GELU dout.
// Asynchronous on the stream.
inline void mlp_core_backward(Stream& stream, Core core, TensorView din, ConstTensorView dout,
                              ConstTensorView in) {
  core == Core::swiglu ? swiglu_backward(stream, din, dout, in)
                       : gelu_backward(stream, din, dout, in);
}

}  // namespace ladder
