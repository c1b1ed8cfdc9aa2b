// In a build without cuDNN.
#include "kernels/cudnn_attention.h"

namespace ladder {

struct CudnnAttention::State {};

void CudnnAttention::require(DeviceType, DType, size_t, const char*) {
  const bool has_cuda = cuda_device_of_build() == DeviceType::cuda;
  throw UserError(
      has_cuda ? "this build has no cuDNN: it found no cudnn_graph.h beside CUDA's headers, in "
                 "CUDNN_PATH "
                 "or in /usr/include"
               : "this build has no CUDA, and so no cuDNN: bazel build --config=cuda has both");
}

std::string CudnnAttention::name() { return "no cuDNN"; }

CudnnAttention::CudnnAttention(Memory& memory, DType dtype, const Shape&, size_t, size_t, Order) {
  require(memory.device(), dtype, 0);
}
CudnnAttention::~CudnnAttention() = default;

void CudnnAttention::forward(Stream&, TensorView, TensorView, ConstTensorView) {}
void CudnnAttention::backward(Stream&, TensorView, TensorView, ConstTensorView, ConstTensorView,
                              ConstTensorView, ConstTensorView) {}

}  // namespace ladder
