// Attention by cuDNN, NVIDIA's closed library, beside our own kernels of attention.h: the
// yardstick. It works on the same tensors, where they lie.
//
// Programs are not linked with cuDNN. It is there if the build found its headers (--config=cuda)
// and the program finds libcudnn.so.9 (cudnn/library.h).
#pragma once

#include <memory>
#include <string>

#include "kernels/attention.h"

namespace ladder {

class CudnnAttention {
 public:
  static constexpr const char* kLibrary = "libcudnn.so.9";

  // In which order backward adds up the gradient of q. `fixed` gives the same bits each time, and
  // needs a workspace of B NH T^2 elements. `any` adds in the order in which thread blocks come,
  // into B NH T HS numbers in fp32.
  enum class Order { fixed, any };

  // Throws a UserError that says why, if attention in `dtype` with heads of `head_size` elements
  // cannot be had from cuDNN on this device: bf16 and fp16 on a GPU can, with multiples of 8 up to
  // 128. It loads
  // `library`.
  static void require(DeviceType device, DType dtype, size_t head_size,
                      const char* library = kLibrary);
  // Returns "cuDNN 9.19.0". REQUIRES: require() has not thrown.
  static std::string name();

  // Chooses kernels for an `out` of (B, T, C) with NH heads and a qkv (B, T, qkv_columns), and
  // allocates what they need as Category::workspace. Throws an Error that says what cuDNN said, if
  // it has no kernel for them. REQUIRES: require() has not thrown.
  CudnnAttention(Memory& memory, DType dtype, const Shape& out, size_t num_heads,
                 size_t qkv_columns, Order order = Order::fixed);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // What attention.h documents, on tensors of the constructor's shapes; a smaller B will do.
  // REQUIRES: no simulation.
  void forward(Stream& stream, TensorView out, TensorView logsumexp, ConstTensorView qkv);
  void backward(Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ladder
