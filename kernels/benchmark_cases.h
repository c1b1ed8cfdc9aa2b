// The kernels of a training step as //kernels:benchmark times them. For benchmarks only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/machine_limits.h"

namespace ladder {

// Tensors of one benchmark: filled with numbers of the size that training sees.
class BenchmarkTensors {
 public:
  explicit BenchmarkTensors(DeviceType device) : stream(device), memory_(device, "benchmark", 0) {}

  TensorView operator()(const Shape& shape, DType dtype = DType::fp32);
  // int32, spread over the vocabulary of GPT-2.
  TensorView tokens(const Shape& shape);

  Stream stream;

 private:
  Memory memory_;
  std::vector<Tensor> tensors_;
};

struct BenchmarkCase {
  std::string name;
  Limit limit;
  // A call of the kernel, asynchronous on the tensors' stream, and what it costs.
  struct Call {
    std::function<void()> run;
    Cost cost;
  };
  // Makes the arguments.
  std::function<Call(BenchmarkTensors&)> prepare;
};

// Each kernel in fp32 and bf16, in the shapes of GPT-2 124M on `batch` sequences of `tokens`
// tokens; AdamW, norm, fill and rounding on `parameters` elements; a product in fp64.
std::vector<BenchmarkCase> benchmark_cases(size_t batch, size_t tokens, size_t parameters);

}  // namespace ladder
