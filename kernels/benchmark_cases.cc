#include "kernels/benchmark_cases.h"

#include <cstdint>
#include <utility>

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/classifier.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/residual.h"

namespace ladder {
namespace {

constexpr size_t C = 768, NH = 12, V = 50257;

// What the functions below add to.
struct Cases {
  size_t B, T, R, P;  // R = B T rows, P parameters
  DType x;            // of the arguments, and in the names unless it is fp32
  std::vector<BenchmarkCase> all;

  void add(const std::string& name, Limit limit, double work,
           std::function<std::function<void()>(BenchmarkTensors&)> prepare) {
    const std::string suffix = x == DType::fp32 ? "" : concat("/", name_of(x));
    all.push_back({name + suffix, limit, work, std::move(prepare)});
  }
};

void add_matmul(Cases& cases, const std::string& name, DType out_type, size_t m, size_t n, size_t k,
                MatmulOptions options) {
  const DType x = cases.x;
  const Limit limit = x == DType::fp64 ? Limit::fp64 : Limit::fp32;
  cases.add("matmul/" + name, limit, 2.0 * static_cast<double>(m * n * k),
            [=](BenchmarkTensors& make) {
              const TensorView out = make({m, n}, out_type);
              const TensorView a = make(options.transpose_a ? Shape{k, m} : Shape{m, k}, x);
              const TensorView b = make(options.transpose_b ? Shape{n, k} : Shape{k, n}, x);
              return [=, &make] { matmul(make.stream, out, a, b, options); };
            });
}

void add_matmuls(Cases& cases) {
  const size_t R = cases.R;
  const MatmulOptions input{.transpose_b = true};
  const MatmulOptions weight{.transpose_a = true, .accumulate = true};
  const DType x = cases.x, sums = accumulation_dtype(x);
  add_matmul(cases, "qkv_forward", x, R, 3 * C, C, {});
  add_matmul(cases, "fc_forward", x, R, 4 * C, C, {});
  add_matmul(cases, "mlp_proj_forward", x, R, C, 4 * C, {});
  add_matmul(cases, "fc_input_gradient", x, R, C, 4 * C, input);
  add_matmul(cases, "fc_weight_gradient", sums, C, 4 * C, R, weight);
  add_matmul(cases, "head_forward", sums, 256, V, C, input);
  add_matmul(cases, "head_input_gradient", x, 256, C, V, {});
  add_matmul(cases, "head_weight_gradient", sums, V, C, 256, weight);
}

void add_attention(Cases& cases) {
  const size_t B = cases.B, T = cases.T;
  const DType x = cases.x;
  // Half of the scores are masked: 2 products forward, 5 backward, over T^2 / 2.
  const double product = 2.0 * static_cast<double>(B * T * T / 2 * C);
  cases.add("attention_forward", Limit::fp32, 2 * product, [=](BenchmarkTensors& make) {
    const TensorView out = make({B, T, C}, x), lse = make({B, NH, T}), qkv = make({B, T, 3 * C}, x);
    return [=, &make] { attention_forward(make.stream, out, lse, qkv); };
  });
  cases.add("attention_backward", Limit::fp32, 5 * product, [=](BenchmarkTensors& make) {
    const TensorView out = make({B, T, C}, x), lse = make({B, NH, T}), qkv = make({B, T, 3 * C}, x);
    const TensorView dqkv = make({B, T, 3 * C}, x), dot = make({B, NH, T}),
                     dout = make({B, T, C}, x);
    attention_forward(make.stream, out, lse, qkv);
    return [=, &make] { attention_backward(make.stream, dqkv, dot, dout, out, lse, qkv); };
  });
}

// Kernels that are bound by memory. `passes`: how often (R, C) elements are read or written.
void add_rows(Cases& cases, const std::string& name, double passes, size_t columns,
              const std::function<std::function<void()>(BenchmarkTensors&)>& prepare) {
  cases.add(name, Limit::bandwidth,
            passes * static_cast<double>(size_of(cases.x) * cases.R * columns), prepare);
}

void add_memory_bound(Cases& cases) {
  const size_t B = cases.B, T = cases.T, R = cases.R;
  const DType x = cases.x;
  add_rows(cases, "layernorm_forward", 2, C, [=](BenchmarkTensors& make) {
    const TensorView out = make({R, C}, x), mean = make({R}), rstd = make({R}),
                     in = make({R, C}, x);
    const TensorView weight = make({C}, x), bias = make({C}, x);
    return [=, &make] { layernorm_forward(make.stream, out, mean, rstd, in, weight, bias); };
  });
  add_rows(cases, "layernorm_backward", 4, C, [=](BenchmarkTensors& make) {
    const TensorView din = make({R, C}, x), dw = make({C}), db = make({C}), dout = make({R, C}, x);
    const TensorView in = make({R, C}, x), weight = make({C}, x), mean = make({R}),
                     rstd = make({R});
    return
        [=, &make] { layernorm_backward(make.stream, din, dw, db, dout, in, weight, mean, rstd); };
  });
  add_rows(cases, "gelu_forward", 2, 4 * C, [=](BenchmarkTensors& make) {
    const TensorView out = make({R, 4 * C}, x), in = make({R, 4 * C}, x);
    return [=, &make] { gelu_forward(make.stream, out, in); };
  });
  add_rows(cases, "gelu_backward", 3, 4 * C, [=](BenchmarkTensors& make) {
    const TensorView din = make({R, 4 * C}, x), dout = make({R, 4 * C}, x),
                     in = make({R, 4 * C}, x);
    return [=, &make] { gelu_backward(make.stream, din, dout, in); };
  });
  add_rows(cases, "add_bias", 2, 4 * C, [=](BenchmarkTensors& make) {
    const TensorView out = make({R, 4 * C}, x), bias = make({4 * C}, x);
    return [=, &make] { add_bias(make.stream, out, bias); };
  });
  add_rows(cases, "bias_backward", 1, 4 * C, [=](BenchmarkTensors& make) {
    const TensorView dbias = make({4 * C}), dout = make({R, 4 * C}, x);
    return [=, &make] { bias_backward(make.stream, dbias, dout); };
  });
  add_rows(cases, "add_residual", 3, C, [=](BenchmarkTensors& make) {
    const TensorView out = make({R, C}, x), in = make({R, C}, x), bias = make({C}, x);
    return [=, &make] { add_residual(make.stream, out, in, out, bias); };
  });
  add_rows(cases, "embedding_forward", 2, C, [=](BenchmarkTensors& make) {
    const TensorView out = make({B, T, C}, x), tokens = make.tokens({B, T}),
                     table = make({V, C}, x);
    return [=, &make] { embedding_forward(make.stream, out, tokens, table); };
  });
  add_rows(cases, "embedding_backward", 3, C, [=](BenchmarkTensors& make) {
    const TensorView dout = make({B, T, C}, x), tokens = make.tokens({B, T}), table = make({V, C});
    return [=, &make] { embedding_backward(make.stream, table, tokens, dout); };
  });
}

void add_large(Cases& cases) {
  const size_t P = cases.P;
  constexpr size_t kRows = 256;
  cases.add(
      "softmax_cross_entropy", Limit::bandwidth, 5.0 * 4 * kRows * V, [=](BenchmarkTensors& make) {
        const TensorView logits = make({kRows, V}), targets = make.tokens({kRows});
        const TensorView maximum = make({kRows}), total = make({kRows}), target = make({kRows});
        const TensorView losses = make({kRows});
        return [=, &make] {
          softmax_maximum(make.stream, maximum, logits);
          softmax_exponentials(make.stream, logits, total, target, targets, maximum, 0);
          cross_entropy(make.stream, losses, logits, logits, total, target, targets, 0, 1);
        };
      });
  cases.add("adamw", Limit::bandwidth, 28.0 * static_cast<double>(P), [=](BenchmarkTensors& make) {
    const TensorView p = make({P}), m = make({P});
    const TensorView v = make({P}), g = make({P});
    fill(make.stream, v, 1);
    return [=, &make] { adamw(make.stream, p, m, v, g, AdamWStep{.learning_rate = 1e-3}); };
  });
  cases.add("round_to_bf16", Limit::bandwidth, 6.0 * static_cast<double>(P),
            [=](BenchmarkTensors& make) {
              const TensorView out = make({P}, DType::bf16), in = make({P});
              return [=, &make] { cast(make.stream, out, in); };
            });
  cases.add("squared_norm", Limit::bandwidth, 4.0 * static_cast<double>(P),
            [=](BenchmarkTensors& make) {
              const TensorView in = make({P}), out = make({1}, DType::fp64);
              const TensorView workspace = make({sum_workspace_elements(P)}, DType::fp64);
              return [=, &make] { squared_norm(make.stream, out, workspace, in); };
            });
  cases.add("fill", Limit::bandwidth, 4.0 * static_cast<double>(P), [=](BenchmarkTensors& make) {
    const TensorView out = make({P});
    return [=, &make] { fill(make.stream, out, 0); };
  });
}

}  // namespace

TensorView BenchmarkTensors::operator()(const Shape& shape, DType dtype) {
  tensors_.emplace_back(memory_, Category::workspace, dtype, shape);
  const TensorView view = tensors_.back();
  if (dtype != DType::int32) fill_normal(stream, view, tensors_.size(), 0, 1);
  return view;
}

TensorView BenchmarkTensors::tokens(const Shape& shape) {
  const TensorView view = (*this)(shape, DType::int32);
  std::vector<int32_t> host(view.num_elements());
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int32_t>(i * 7919 % V);
  copy(stream, view, TensorView(host.data(), DType::int32, DeviceType::cpu, shape));
  stream.synchronize();
  return view;
}

std::vector<BenchmarkCase> benchmark_cases(size_t batch, size_t tokens, size_t parameters) {
  Cases cases = {
      .B = batch, .T = tokens, .R = batch * tokens, .P = parameters, .x = DType::fp32, .all = {}};
  add_large(cases);
  for (const DType x : {DType::fp32, DType::bf16}) {
    cases.x = x;
    add_matmuls(cases);
    add_attention(cases);
    add_memory_bound(cases);
  }
  cases.x = DType::fp64;
  add_matmul(cases, "fc_forward", cases.x, cases.R, 4 * C, C, {});
  return std::move(cases.all);
}

}  // namespace ladder
