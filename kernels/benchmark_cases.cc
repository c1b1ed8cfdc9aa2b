#include "kernels/benchmark_cases.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/classifier.h"
#include "kernels/codec.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/head_norm.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/residual.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "kernels/swiglu.h"

namespace ladder {
namespace {

constexpr size_t C = kBenchmarkColumns, NH = kBenchmarkHeads, V = 50257;
// Today's block of the same hidden size: 4 heads of keys and values, and F = 8 C / 3.
constexpr size_t NKV = 4, F = 2048, kHeadSize = C / NH, kQkv = C + 2 * NKV * kHeadSize;
constexpr HeadRange kQueries = {0, NH}, kQueriesAndKeys = {0, NH + NKV};

// The cases that the functions below add.
struct Cases {
  size_t B, T, R, P;  // R = B T rows, P parameters; the classifier takes a quarter of the rows
  DType x;            // of the arguments, and in the names unless it is fp32
  std::vector<BenchmarkCase> all;

  void add(const std::string& name, Limit limit,
           std::function<BenchmarkCase::Call(BenchmarkTensors&)> prepare) {
    const std::string suffix = x == DType::fp32 ? "" : concat("/", name_of(x));
    all.push_back({name + suffix, limit, std::move(prepare)});
  }
};

void add_matmul(Cases& cases, const std::string& name, DType out_type, size_t m, size_t n, size_t k,
                MatmulOptions options) {
  const DType x = cases.x;
  const Limit limit = x == DType::fp64 ? Limit::fp64 : Limit::fp32;
  cases.add("matmul/" + name, limit, [=](BenchmarkTensors& make) {
    const TensorView out = make.padded(m, n, out_type);
    const TensorView a = options.transpose_a ? make.padded(k, m, x) : make.padded(m, k, x);
    const TensorView b = make(options.transpose_b ? Shape{n, k} : Shape{k, n}, x);
    return BenchmarkCase::Call{[=, &make] { matmul(make.stream, out, a, b, options); },
                               matmul_cost(out, a, b, options)};
  });
}

void add_matmuls(Cases& cases) {
  const size_t R = cases.R, some = R / 4;
  const MatmulOptions input{.transpose_b = true};
  const MatmulOptions weight{.transpose_a = true, .accumulate = true};
  const DType x = cases.x, sums = accumulation_dtype(x);
  add_matmul(cases, "qkv_forward", x, R, 3 * C, C, {});
  add_matmul(cases, "fc_forward", x, R, 4 * C, C, {});
  add_matmul(cases, "mlp_proj_forward", x, R, C, 4 * C, {});
  add_matmul(cases, "fc_input_gradient", x, R, C, 4 * C, input);
  add_matmul(cases, "fc_weight_gradient", sums, C, 4 * C, R, weight);
  add_matmul(cases, "head_forward", sums, some, V, C, input);
  add_matmul(cases, "head_input_gradient", x, some, C, V, {});
  add_matmul(cases, "head_weight_gradient", sums, V, C, some, weight);
}

void add_attention(Cases& cases, const std::string& name, size_t num_kv_heads) {
  const size_t B = cases.B, T = cases.T, columns = C + 2 * num_kv_heads * (C / NH);
  const DType x = cases.x;
  cases.add(name + "_forward", Limit::fp32, [=](BenchmarkTensors& make) {
    const TensorView out = make({B, T, C}, x), lse = make({B, NH, T});
    const TensorView qkv = make({B, T, columns}, x);
    return BenchmarkCase::Call{[=, &make] { attention_forward(make.stream, out, lse, qkv, kMask); },
                               attention_forward_cost(out, lse, qkv, kMask)};
  });
  cases.add(name + "_backward", Limit::fp32, [=](BenchmarkTensors& make) {
    const TensorView out = make({B, T, C}, x), lse = make({B, NH, T});
    const TensorView qkv = make({B, T, columns}, x), dqkv = make({B, T, columns}, x);
    const TensorView dot = make({B, NH, T}), dout = make({B, T, C}, x);
    attention_forward(make.stream, out, lse, qkv, kMask);
    return BenchmarkCase::Call{
        [=, &make] { attention_backward(make.stream, dqkv, dot, dout, out, lse, qkv, kMask); },
        attention_backward_cost(dqkv, dout, out, lse, qkv, kMask)};
  });
}

// Kernels that are bound by memory.
void add_memory_bound(Cases& cases) {
  const size_t B = cases.B, T = cases.T, R = cases.R;
  const DType x = cases.x;
  cases.add("layernorm_forward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView out = make({R, C}, x), mean = make({R}), rstd = make({R}),
                     in = make({R, C}, x);
    const TensorView weight = make({C}, x), bias = make({C}, x);
    return BenchmarkCase::Call{
        [=, &make] { layernorm_forward(make.stream, out, mean, rstd, in, weight, bias); },
        layernorm_forward_cost(out, mean, weight)};
  });
  cases.add("layernorm_backward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView din = make({R, C}, x), dw = make({C}), db = make({C}), dout = make({R, C}, x);
    const TensorView in = make({R, C}, x), weight = make({C}, x), mean = make({R}),
                     rstd = make({R});
    return BenchmarkCase::Call{
        [=, &make] { layernorm_backward(make.stream, din, dw, db, dout, in, weight, mean, rstd); },
        layernorm_backward_cost(din, dw, db, weight, mean)};
  });
  cases.add("gelu_forward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView out = make({R, 4 * C}, x), in = make({R, 4 * C}, x);
    return BenchmarkCase::Call{[=, &make] { gelu_forward(make.stream, out, in); },
                               gelu_forward_cost(out)};
  });
  cases.add("gelu_backward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView din = make({R, 4 * C}, x), dout = make({R, 4 * C}, x),
                     in = make({R, 4 * C}, x);
    return BenchmarkCase::Call{[=, &make] { gelu_backward(make.stream, din, dout, in); },
                               gelu_backward_cost(din)};
  });
  cases.add("add_bias", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView out = make({R, 4 * C}, x), bias = make({4 * C}, x);
    return BenchmarkCase::Call{[=, &make] { add_bias(make.stream, out, bias); },
                               add_bias_cost(out, bias)};
  });
  cases.add("bias_backward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView dbias = make({4 * C}), dout = make({R, 4 * C}, x);
    return BenchmarkCase::Call{[=, &make] { bias_backward(make.stream, dbias, dout); },
                               bias_backward_cost(dbias, dout)};
  });
  cases.add("add_residual", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView out = make({R, C}, x), in = make({R, C}, x), bias = make({C}, x);
    return BenchmarkCase::Call{[=, &make] { add_residual(make.stream, out, in, out, bias); },
                               add_residual_cost(out, bias)};
  });
  cases.add("embedding_forward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView out = make({B, T, C}, x), tokens = make.tokens({B, T}),
                     table = make({V, C}, x);
    return BenchmarkCase::Call{[=, &make] { embedding_forward(make.stream, out, tokens, table); },
                               embedding_forward_cost(out, tokens)};
  });
  cases.add("embedding_backward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView dout = make({B, T, C}, x), tokens = make.tokens({B, T}), table = make({V, C});
    return BenchmarkCase::Call{[=, &make] { embedding_backward(make.stream, table, tokens, dout); },
                               embedding_backward_cost(table, tokens, dout)};
  });
}

// What today's block has instead of layernorm, GELU and learned positions.
void add_of_todays_block(Cases& cases) {
  const size_t B = cases.B, T = cases.T, R = cases.R;
  const DType x = cases.x;
  cases.add("rmsnorm_forward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView out = make({R, C}, x), rstd = make({R}), in = make({R, C}, x),
                     w = make({C}, x);
    return BenchmarkCase::Call{[=, &make] { rmsnorm_forward(make.stream, out, rstd, in, w, 1e-5); },
                               rmsnorm_forward_cost(out, rstd, w)};
  });
  cases.add("rmsnorm_backward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView din = make({R, C}, x), dw = make({C}), dout = make({R, C}, x);
    const TensorView in = make({R, C}, x), weight = make({C}, x), rstd = make({R});
    return BenchmarkCase::Call{
        [=, &make] { rmsnorm_backward(make.stream, din, dw, dout, in, weight, rstd); },
        rmsnorm_backward_cost(din, dw, weight, rstd)};
  });
  cases.add("head_norm_forward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView qkv = make({R, kQkv}, x), before = make({R, C}, x), rstd = make({R, NH});
    const TensorView w = make({kHeadSize}, x);
    return BenchmarkCase::Call{
        [=, &make] { head_norm_forward(make.stream, qkv, before, rstd, kQueries, w, 1e-5); },
        head_norm_forward_cost(before, rstd, w)};
  });
  cases.add("head_norm_backward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView dqkv = make({R, kQkv}, x), before = make({R, C}, x), rstd = make({R, NH});
    const TensorView w = make({kHeadSize}, x), dw = make({kHeadSize});
    return BenchmarkCase::Call{
        [=, &make] { head_norm_backward(make.stream, dqkv, dw, kQueries, before, w, rstd); },
        head_norm_backward_cost(before, dw, w, rstd)};
  });
  cases.add("swiglu_forward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView out = make({R, F}, x), in = make({R, 2 * F}, x);
    return BenchmarkCase::Call{[=, &make] { swiglu_forward(make.stream, out, in); },
                               swiglu_forward_cost(out, in)};
  });
  cases.add("swiglu_backward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView din = make({R, 2 * F}, x), dout = make({R, F}, x), in = make({R, 2 * F}, x);
    return BenchmarkCase::Call{[=, &make] { swiglu_backward(make.stream, din, dout, in); },
                               swiglu_backward_cost(din, dout)};
  });
  cases.add("rotary_forward", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView qkv = make({B, T, kQkv}, x), table = make({T, kHeadSize});
    // Turns by 45 degrees: with other numbers x would grow or vanish from call to call.
    fill(make.stream, table, std::sqrt(0.5));
    return BenchmarkCase::Call{
        [=, &make] { rotary_forward(make.stream, qkv, kQueriesAndKeys, table); },
        rotary_cost(qkv, kQueriesAndKeys, table, {})};
  });
}

void add_large(Cases& cases) {
  const size_t P = cases.P, rows = cases.R / 4;
  cases.add("softmax_cross_entropy", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView logits = make.padded(rows, V, DType::fp32), targets = make.tokens({rows});
    const TensorView losses = make({rows}), statistics = make({3 * rows});
    const auto run = [=, &make] {
      softmax_cross_entropy(make.stream, losses, logits, logits, statistics, targets, 1);
    };
    return BenchmarkCase::Call{run, softmax_cross_entropy_cost(losses, logits, logits)};
  });
  cases.add("adamw", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView p = make({P}), m = make({P});
    const TensorView v = make({P}), g = make({P});
    fill(make.stream, v, 1);
    const std::vector<AdamWTensors> tensors = {{p, m, v, g}};
    return BenchmarkCase::Call{[=, &make] { adamw(make.stream, tensors, {.learning_rate = 1e-3}); },
                               adamw_cost(tensors)};
  });
  cases.add("adamw/bf16", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView p = make({P}), m = make({P}), copy = make({P}, DType::bf16);
    const TensorView v = make({P}), g = make({P});
    fill(make.stream, v, 1);
    const std::vector<AdamWTensors> tensors = {{p, m, v, g, copy}};
    return BenchmarkCase::Call{[=, &make] { adamw(make.stream, tensors, {.learning_rate = 1e-3}); },
                               adamw_cost(tensors)};
  });
  cases.add("round_to_bf16", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView out = make({P}, DType::bf16), in = make({P});
    return BenchmarkCase::Call{[=, &make] { cast(make.stream, out, in); }, cast_cost(out, in)};
  });
  for (const Format format :
       {Format::fp16, Format::bf16, Format::fp8_e4m3, Format::int8, Format::sign}) {
    const Codec codec = {.format = format};
    const std::string name(name_of(format));
    cases.add("encode_" + name, Limit::bandwidth, [=](BenchmarkTensors& make) {
      const TensorView in = make({P}), out = make({encoded_words(codec, P)}, DType::int32);
      return BenchmarkCase::Call{[=, &make] { encode(make.stream, out, {}, in, codec); },
                                 encode_cost(out, {}, in)};
    });
    cases.add("decode_" + name, Limit::bandwidth, [=](BenchmarkTensors& make) {
      const TensorView out = make({P}), in = make({1, encoded_words(codec, P)}, DType::int32);
      return BenchmarkCase::Call{[=, &make] { decode_sum(make.stream, out, in, codec); },
                                 decode_sum_cost(out, in)};
    });
  }
  cases.add("squared_norms", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView in = make({P}), out = make({1}, DType::fp64);
    const TensorView workspace = make({sum_workspace_elements(P)}, DType::fp64);
    return BenchmarkCase::Call{[=, &make] { squared_norms(make.stream, out, workspace, {in}); },
                               squared_norms_cost({in})};
  });
  cases.add("fill", Limit::bandwidth, [=](BenchmarkTensors& make) {
    const TensorView out = make({P});
    return BenchmarkCase::Call{[=, &make] { fill(make.stream, out, 0); }, fill_cost(out)};
  });
}

}  // namespace

TensorView BenchmarkTensors::operator()(const Shape& shape, DType dtype) {
  tensors_.emplace_back(memory_, Category::workspace, dtype, shape);
  const TensorView view = tensors_.back();
  if (dtype != DType::int32) fill_normal(stream, view, tensors_.size(), 0, 1);
  return view;
}

TensorView BenchmarkTensors::padded(size_t rows, size_t columns, DType dtype) {
  return (*this)({rows, padded_columns(columns, stream.device())}, dtype).first_columns(columns);
}

TensorView BenchmarkTensors::tokens(const Shape& shape) {
  const TensorView view = (*this)(shape, DType::int32);
  std::vector<int32_t> host(view.num_elements());
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int32_t>(i * 7919 % V);
  copy(stream, view, TensorView(host.data(), DType::int32, DeviceType::cpu, shape));
  stream.synchronize();
  return view;
}

std::vector<BenchmarkCase> benchmark_cases(DeviceType device, size_t batch, size_t tokens,
                                           size_t parameters) {
  Cases cases = {
      .B = batch, .T = tokens, .R = batch * tokens, .P = parameters, .x = DType::fp32, .all = {}};
  add_large(cases);
  for (const DType x : {DType::fp32, DType::bf16}) {
    cases.x = x;
    add_matmuls(cases);
    add_attention(cases, "attention", NH);
    add_attention(cases, "grouped_query_attention", NKV);
    add_memory_bound(cases);
    add_of_todays_block(cases);
  }
  cases.x = DType::fp64;
  add_matmul(cases, "fc_forward", cases.x, cases.R, 4 * C, C, {});
  for (BenchmarkCase& one : cudnn_cases(device, batch, tokens)) cases.all.push_back(std::move(one));
  return std::move(cases.all);
}

}  // namespace ladder
