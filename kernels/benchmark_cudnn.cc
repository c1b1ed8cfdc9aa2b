#include <memory>

#include "kernels/attention.h"
#include "kernels/benchmark_cases.h"
#include "kernels/cudnn_attention.h"

namespace ladder {
namespace {

constexpr size_t C = kBenchmarkColumns, NH = kBenchmarkHeads;
constexpr DType x = DType::bf16;

bool has_cudnn(DeviceType device) {
  try {
    CudnnAttention::require(device, x, C / NH);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

std::vector<BenchmarkCase> cudnn_cases(DeviceType device, size_t batch, size_t tokens) {
  using Order = CudnnAttention::Order;
  if (!has_cudnn(device)) return {};
  const size_t B = batch, T = tokens;
  std::vector<BenchmarkCase> cases;
  const auto kernels = [=](BenchmarkTensors& make, Order order) {
    return std::make_shared<CudnnAttention>(make.memory(), x, Shape{B, T, C}, NH, 3 * C, order);
  };
  const auto add = [&](const char* name, auto prepare) {
    cases.push_back({concat(name, "/bf16"), Limit::fp32, std::move(prepare)});
  };
  add("attention_forward/cudnn", [=](BenchmarkTensors& make) {
    const TensorView out = make({B, T, C}, x), lse = make({B, NH, T}), qkv = make({B, T, 3 * C}, x);
    const auto cudnn = kernels(make, Order::fixed);
    return BenchmarkCase::Call{[=, &make] { cudnn->forward(make.stream, out, lse, qkv); },
                               attention_forward_cost(out, lse, qkv, kMask)};
  });
  for (const Order order : {Order::fixed, Order::any}) {
    const char* const name =
        order == Order::fixed ? "attention_backward/cudnn" : "attention_backward/cudnn_any_order";
    add(name, [=](BenchmarkTensors& make) {
      const TensorView out = make({B, T, C}, x), lse = make({B, NH, T});
      const TensorView qkv = make({B, T, 3 * C}, x), dqkv = make({B, T, 3 * C}, x);
      const TensorView dot = make({B, NH, T}), dout = make({B, T, C}, x);
      const auto cudnn = kernels(make, order);
      cudnn->forward(make.stream, out, lse, qkv);
      return BenchmarkCase::Call{
          [=, &make] { cudnn->backward(make.stream, dqkv, dot, dout, out, lse, qkv); },
          attention_backward_cost(dqkv, dout, out, lse, qkv, kMask)};
    });
  }
  return cases;
}

}  // namespace ladder
