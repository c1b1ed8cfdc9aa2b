// Every kernel as a fraction of what the machine can do, measured just before it in the same run:
//   bazel run //kernels:benchmark -- --benchmark_filter=matmul
// The argument after a name is the number of threads. `of_limit` is the fraction of the peak
// fp32 multiply-add rate (matmul, attention; a product of doubles counts twice) or of the memory
// bandwidth (all others; where the data fit into a cache it may exceed 1). Shapes are those of
// GPT-2 124M at B = 4, T = 256.
#include <benchmark/benchmark.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/classifier.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/machine_limits.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/residual.h"
#include "kernels/runtime/threads.h"

namespace ladder {
namespace {

constexpr size_t B = 4, T = 256, R = B * T, C = 768, NH = 12, V = 50257;
constexpr size_t kAdamElements = size_t{16} << 20;
const DType kFloat = DType::fp32;

// Tensors of one benchmark: filled with numbers of the size that training sees.
class Tensors {
 public:
  TensorView operator()(const Shape& shape, DType dtype = kFloat) {
    tensors_.emplace_back(memory_, Category::workspace, dtype, shape);
    const TensorView view = tensors_.back();
    if (dtype != DType::int32) fill_normal(stream, view, tensors_.size(), 0, 1);
    return view;
  }
  TensorView tokens(const Shape& shape) {
    const TensorView view = (*this)(shape, DType::int32);
    for (size_t i = 0; i < view.num_elements(); ++i) {
      view.as<int32_t>()[i] = static_cast<int32_t>(i * 7919 % V);
    }
    return view;
  }
  Stream stream{DeviceType::cpu};

 private:
  Memory memory_{DeviceType::cpu, "benchmark", 0};
  std::vector<Tensor> tensors_;
};

enum class Limit { flops, bandwidth };

// Times what `prepare` returns. `work`: FLOP, or bytes read and written, of one call.
void add_benchmark(const std::string& name, Limit limit, double work,
                   const std::function<std::function<void()>(Tensors&)>& prepare) {
  const auto body = [=](benchmark::State& state) {
    set_num_threads(static_cast<int>(state.range(0)));
    const double peak = limit == Limit::flops ? measure_fma_rate() : measure_bandwidth();
    Tensors tensors;
    const std::function<void()> kernel = prepare(tensors);
    kernel();
    const auto begin = std::chrono::steady_clock::now();
    for (auto _ : state) kernel();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double rate = work * static_cast<double>(state.iterations()) / seconds;
    state.counters[limit == Limit::flops ? "GFLOP/s" : "GB/s"] = 1e-9 * rate;
    state.counters["of_limit"] = rate / peak;
  };
  auto* const registered = benchmark::RegisterBenchmark(name.c_str(), body);
  registered->Unit(benchmark::kMicrosecond)->UseRealTime();
  for (int threads = 1; threads <= num_available_cores(); threads *= 2) registered->Arg(threads);
}

void add_matmul(const std::string& name, DType dtype, size_t m, size_t n, size_t k,
                MatmulOptions options) {
  // The peak is that of fp32. A vector holds half as many doubles, so a double counts twice.
  const double flops = (dtype == DType::fp64 ? 4.0 : 2.0) * static_cast<double>(m * n * k);
  add_benchmark("matmul/" + name, Limit::flops, flops, [=](Tensors& make) {
    const TensorView out = make({m, n}, dtype);
    const TensorView a = make(options.transpose_a ? Shape{k, m} : Shape{m, k}, dtype);
    const TensorView b = make(options.transpose_b ? Shape{n, k} : Shape{k, n}, dtype);
    return [=, &make] { matmul(make.stream, out, a, b, options); };
  });
}

void add_matmuls() {
  const MatmulOptions input{.transpose_b = true};
  const MatmulOptions weight{.transpose_a = true, .accumulate = true};
  add_matmul("qkv_forward", kFloat, R, 3 * C, C, {});
  add_matmul("fc_forward", kFloat, R, 4 * C, C, {});
  add_matmul("mlp_proj_forward", kFloat, R, C, 4 * C, {});
  add_matmul("fc_input_gradient", kFloat, R, C, 4 * C, input);
  add_matmul("fc_weight_gradient", kFloat, C, 4 * C, R, weight);
  add_matmul("head_forward", kFloat, 256, V, C, input);
  add_matmul("head_input_gradient", kFloat, 256, C, V, {});
  add_matmul("head_weight_gradient", kFloat, V, C, 256, weight);
  add_matmul("fp64_fc_forward", DType::fp64, R, 4 * C, C, {});
}

void add_attention() {
  // Half of the scores are masked: 2 products forward, 5 backward, over T^2 / 2.
  const double product = 2.0 * B * T * T / 2 * C;
  add_benchmark("attention_forward", Limit::flops, 2 * product, [](Tensors& make) {
    const TensorView out = make({B, T, C}), lse = make({B, NH, T}), qkv = make({B, T, 3 * C});
    return [=, &make] { attention_forward(make.stream, out, lse, qkv); };
  });
  add_benchmark("attention_backward", Limit::flops, 5 * product, [](Tensors& make) {
    const TensorView out = make({B, T, C}), lse = make({B, NH, T}), qkv = make({B, T, 3 * C});
    const TensorView dqkv = make({B, T, 3 * C}), dot = make({B, NH, T}), dout = make({B, T, C});
    attention_forward(make.stream, out, lse, qkv);
    return [=, &make] { attention_backward(make.stream, dqkv, dot, dout, out, lse, qkv); };
  });
}

// Kernels that are bound by memory. `passes`: how often (R, C) elements are read or written.
void add_rows(const std::string& name, double passes, size_t columns,
              const std::function<std::function<void()>(Tensors&)>& prepare) {
  add_benchmark(name, Limit::bandwidth, passes * 4.0 * static_cast<double>(R * columns), prepare);
}

void add_memory_bound() {
  add_rows("layernorm_forward", 2, C, [](Tensors& make) {
    const TensorView out = make({R, C}), mean = make({R}), rstd = make({R}), in = make({R, C});
    const TensorView weight = make({C}), bias = make({C});
    return [=, &make] { layernorm_forward(make.stream, out, mean, rstd, in, weight, bias); };
  });
  add_rows("layernorm_backward", 4, C, [](Tensors& make) {
    const TensorView din = make({R, C}), dw = make({C}), db = make({C}), dout = make({R, C});
    const TensorView in = make({R, C}), weight = make({C}), mean = make({R}), rstd = make({R});
    return
        [=, &make] { layernorm_backward(make.stream, din, dw, db, dout, in, weight, mean, rstd); };
  });
  add_rows("gelu_forward", 2, 4 * C, [](Tensors& make) {
    const TensorView out = make({R, 4 * C}), in = make({R, 4 * C});
    return [=, &make] { gelu_forward(make.stream, out, in); };
  });
  add_rows("gelu_backward", 3, 4 * C, [](Tensors& make) {
    const TensorView din = make({R, 4 * C}), dout = make({R, 4 * C}), in = make({R, 4 * C});
    return [=, &make] { gelu_backward(make.stream, din, dout, in); };
  });
  add_rows("add_bias", 2, 4 * C, [](Tensors& make) {
    const TensorView out = make({R, 4 * C}), bias = make({4 * C});
    return [=, &make] { add_bias(make.stream, out, bias); };
  });
  add_rows("bias_backward", 1, 4 * C, [](Tensors& make) {
    const TensorView dbias = make({4 * C}), dout = make({R, 4 * C});
    return [=, &make] { bias_backward(make.stream, dbias, dout); };
  });
  add_rows("add_residual", 3, C, [](Tensors& make) {
    const TensorView out = make({R, C}), in = make({R, C}), bias = make({C});
    return [=, &make] { add_residual(make.stream, out, in, out, bias); };
  });
  add_rows("embedding_forward", 2, C, [](Tensors& make) {
    const TensorView out = make({B, T, C}), tokens = make.tokens({B, T}), table = make({V, C});
    return [=, &make] { embedding_forward(make.stream, out, tokens, table); };
  });
  add_rows("embedding_backward", 3, C, [](Tensors& make) {
    const TensorView dout = make({B, T, C}), tokens = make.tokens({B, T}), table = make({V, C});
    return [=, &make] { embedding_backward(make.stream, table, tokens, dout); };
  });
}

void add_large() {
  constexpr size_t kRows = 256;
  add_benchmark("softmax_cross_entropy", Limit::bandwidth, 5.0 * 4 * kRows * V, [](Tensors& make) {
    const TensorView logits = make({kRows, V}), targets = make.tokens({kRows});
    const TensorView maximum = make({kRows}), total = make({kRows}), target = make({kRows});
    const TensorView losses = make({kRows});
    return [=, &make] {
      softmax_maximum(make.stream, maximum, logits);
      softmax_exponentials(make.stream, logits, total, target, targets, maximum, 0);
      cross_entropy(make.stream, losses, logits, total, target, targets, 0, 1);
    };
  });
  add_benchmark("adamw", Limit::bandwidth, 28.0 * kAdamElements, [](Tensors& make) {
    const TensorView p = make({kAdamElements}), m = make({kAdamElements});
    const TensorView v = make({kAdamElements}), g = make({kAdamElements});
    fill(make.stream, v, 1);
    return [=, &make] { adamw(make.stream, p, m, v, g, AdamWStep{.learning_rate = 1e-3}); };
  });
  add_benchmark("squared_norm", Limit::bandwidth, 4.0 * kAdamElements, [](Tensors& make) {
    const TensorView in = make({kAdamElements}), out = make({1}, DType::fp64);
    const TensorView workspace = make({sum_workspace_elements(kAdamElements)}, DType::fp64);
    return [=, &make] { squared_norm(make.stream, out, workspace, in); };
  });
  add_benchmark("fill", Limit::bandwidth, 4.0 * kAdamElements, [](Tensors& make) {
    const TensorView out = make({kAdamElements});
    return [=, &make] { fill(make.stream, out, 0); };
  });
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  ladder::add_matmuls();
  ladder::add_attention();
  ladder::add_memory_bound();
  ladder::add_large();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
