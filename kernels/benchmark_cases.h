// The kernels of a training step, for //kernels:benchmark.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/attention_mask.h"
#include "kernels/kernel.h"
#include "kernels/machine_limits.h"

namespace ladder {

inline constexpr size_t kBenchmarkColumns = 768, kBenchmarkHeads = 12;  // of GPT-2 124M
inline constexpr AttentionMask kMask = AttentionMask::causal;

// The tensors of one benchmark. They are filled with values of the size that training has.
class BenchmarkTensors {
 public:
  explicit BenchmarkTensors(DeviceType device) : stream(device), memory_(device, "benchmark", 0) {}

  TensorView operator()(const Shape& shape, DType dtype = DType::fp32);
  // Returns a matrix whose rows begin where products want them.
  TensorView padded(size_t rows, size_t columns, DType dtype);
  // Returns tokens (int32) that are spread over the vocabulary of GPT-2.
  TensorView tokens(const Shape& shape);

  Memory& memory() { return memory_; }

  Stream stream;

 private:
  Memory memory_;
  std::vector<Tensor> tensors_;
};

struct BenchmarkCase {
  std::string name;
  Limit limit;
  // A call of the kernel, which is asynchronous on the tensors' stream, and its cost.
  struct Call {
    std::function<void()> run;
    Cost cost;
  };
  // Makes the arguments and returns the call.
  std::function<Call(BenchmarkTensors&)> prepare;
};

// Returns a case for each kernel in fp32 and bf16. Shapes are those of GPT-2 124M on `batch`
// sequences of `tokens` tokens, or those of today's block of the same hidden size. AdamW, norm,
// fill and cast work on `parameters` elements. There is one product in fp64, too, and attention by
// cuDNN, if the device has it.
std::vector<BenchmarkCase> benchmark_cases(DeviceType device, size_t batch, size_t tokens,
                                           size_t parameters);

// Returns attention by cuDNN in bf16, if the device has it: backward with sums in a fixed order,
// and in any.
std::vector<BenchmarkCase> cudnn_cases(DeviceType device, size_t batch, size_t tokens);

}  // namespace ladder
