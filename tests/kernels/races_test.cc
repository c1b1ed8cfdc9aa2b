// No two threads of a CPU kernel touch the same memory without an order between them: the bodies
// are compiled for the thread sanitizer, which tells by what orders the threads, not by who
// happened to be faster. (That the results are right is the other tests' business.)
#include <omp.h>

#include <vector>

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/attention_merge.h"
#include "kernels/attention_of_tile.h"
#include "kernels/classifier.h"
#include "kernels/cpu/gemm.h"
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
#include "kernels/vocabulary.h"
#include "tests/catch.h"
#include "tests/kernels/arrays.h"
#include "tests/kernels/thread_sanitizer.h"

namespace ladder::testing {
namespace {

constexpr int kThreads = 3;

Stream stream(DeviceType::cpu);

template <class Body>
int races_in(Body body) {
  omp_set_num_threads(kThreads);
  const int before = num_races();
  body();
  return num_races() - before;
}

// Of every number of elements there are several parts for each thread.
constexpr size_t kRows = 10, kColumns = 700, kElements = 10'000;

Array zeros(DType dtype, const Shape& shape) {
  return Array(dtype, shape, Values(shape.num_elements()));
}

Array tokens(size_t n, size_t words) {
  return Array(DType::int32, {n}, random_tokens(n, words, "tokens"));
}

// Two loops of one region.
void two_loops(bool barrier, std::vector<int>& x, std::vector<int>& y) {
  const size_t n = x.size();
#pragma omp parallel
  {
    if (barrier) {
#pragma omp for schedule(dynamic)
      for (size_t i = 0; i < n; ++i) x[i] = 1;
    } else {
#pragma omp for schedule(dynamic) nowait
      for (size_t i = 0; i < n; ++i) x[i] = 1;
    }
#pragma omp for schedule(static)
    for (size_t i = 0; i < n; ++i) y[i] = x[n - 1 - i];
  }
}

// One loop, whose threads use the same memory in between.
void shared_scratch(std::vector<int>& x) {
  int scratch = 0;
#pragma omp parallel for schedule(static)
  for (size_t i = 0; i < x.size(); ++i) {
    scratch = static_cast<int>(i);
    x[i] = scratch;
  }
}

TEST_CASE("a race is found, and none where a barrier or the end of a region orders threads") {
  std::vector<int> x(100), y(100);
  CHECK(races_in([&] { two_loops(false, x, y); }) > 0);
  CHECK(races_in([&] {
          for (int i = 0; i < 5; ++i) two_loops(true, x, y);
        }) == 0);
  CHECK(races_in([&] { shared_scratch(x); }) > 0);
}

TEST_CASE("elementwise kernels and reductions have no races") {
  for (DType dtype : floats()) {
    INFO(name_of(dtype));
    const DType sums = accumulation_dtype(dtype);
    const Array a = zeros(dtype, {kElements}), b = zeros(dtype, {kElements});
    const Array c = zeros(dtype, {kElements}), wide = zeros(sums, {kElements});
    const Array matrix = zeros(dtype, {kRows, kColumns}), other = zeros(dtype, {kRows, kColumns});
    const Array row = zeros(dtype, {kColumns}), dbias = zeros(sums, {kColumns});
    CHECK(races_in([&] {
            cpu::fill(stream, a, 1);
            cpu::fill_normal(stream, b, 1, 2, 3);
            cpu::add(stream, c, a, b);
            cpu::scale(stream, c, c, 2);
            cpu::cast(stream, wide, c);
            cpu::gelu_forward(stream, a, b);
            cpu::gelu_backward(stream, a, b, c);
            cpu::add_bias(stream, matrix, row);
            cpu::bias_backward(stream, dbias, matrix);
            cpu::add_residual(stream, other, matrix, matrix, row);
          }) == 0);
  }
  for (DType dtype : kAccumulation) {
    INFO(name_of(dtype));
    const Array p = zeros(dtype, {kElements}), m = zeros(dtype, {kElements});
    const Array v = zeros(dtype, {kElements}), g = zeros(dtype, {kElements});
    const Array out = zeros(DType::fp64, {1}), workspace = zeros(DType::fp64, {kElements});
    CHECK(races_in([&] {
            cpu::adamw(stream, {{p, m, v, g}}, {});
            cpu::sum(stream, out, workspace, p);
            cpu::squared_norms(stream, out, workspace, {p});
          }) == 0);
  }
}

TEST_CASE("layernorm and RMSNorm have no races") {
  for (DType dtype : floats()) {
    INFO(name_of(dtype));
    const DType sums = accumulation_dtype(dtype);
    const Array x = zeros(dtype, {kRows, kColumns}), y = zeros(dtype, {kRows, kColumns});
    const Array weight = zeros(dtype, {kColumns}), bias = zeros(dtype, {kColumns});
    const Array mean = zeros(sums, {kRows}), rstd = zeros(sums, {kRows});
    const Array dweight = zeros(sums, {kColumns}), dbias = zeros(sums, {kColumns});
    CHECK(races_in([&] {
            cpu::layernorm_forward(stream, y, mean, rstd, x, weight, bias);
            cpu::layernorm_backward(stream, x, dweight, dbias, y, y, weight, mean, rstd);
            cpu::rmsnorm_forward(stream, y, rstd, x, weight, 1);
            cpu::rmsnorm_backward(stream, x, dweight, y, y, weight, rstd);
          }) == 0);
  }
}

TEST_CASE("norms of heads have no races") {
  for (DType dtype : floats()) {
    INFO(name_of(dtype));
    const DType sums = accumulation_dtype(dtype);
    const Array x = zeros(dtype, {kRows, kColumns}), before = zeros(dtype, {kRows, 200});
    const Array rstd = zeros(sums, {kRows, 2}), weight = zeros(dtype, {100});
    const Array dweight = zeros(sums, {100});
    CHECK(races_in([&] {
            cpu::head_norm_forward(stream, x, before, rstd, {1, 2}, weight, 1);
            cpu::head_norm_backward(stream, x, dweight, {1, 2}, before, weight, rstd);
          }) == 0);
  }
}

TEST_CASE("SwiGLU and rotary positions have no races") {
  for (DType dtype : floats()) {
    INFO(name_of(dtype));
    const Array half = zeros(dtype, {kRows, kColumns}), both = zeros(dtype, {kRows, 2 * kColumns});
    const Array heads = zeros(dtype, {2, kRows, kColumns});
    const Array table = zeros(accumulation_dtype(dtype), {kRows, 100});
    CHECK(races_in([&] {
            cpu::swiglu_forward(stream, half, both);
            cpu::swiglu_backward(stream, both, half, both);
            cpu::rotary(stream, heads, {1, 5}, table, {}, Turn::forward);
          }) == 0);
  }
}

TEST_CASE("embeddings have no races") {
  constexpr size_t kBatch = 2, kTokens = 5, kWords = 4;
  const Array of_rows = tokens(kBatch * kTokens, kWords);
  for (DType dtype : floats()) {
    INFO(name_of(dtype));
    const DType sums = accumulation_dtype(dtype);
    const Array table = zeros(dtype, {kWords, kColumns}), dtable = zeros(sums, {kWords, kColumns});
    const Array out = zeros(dtype, {kBatch, kTokens, kColumns});
    const Array positions = zeros(dtype, {kTokens, kColumns});
    const Array dpositions = zeros(sums, {kTokens, kColumns});
    CHECK(races_in([&] {
            cpu::embedding_forward(stream, out, of_rows, table, 0);
            cpu::position_forward(stream, out, out, positions, {});
            cpu::position_backward(stream, dpositions, out, {});
            cpu::embedding_backward(stream, dtable, of_rows, out, 0);
          }) == 0);
  }
}

// In bf16 and fp16 backward has three loops in a row. Two query heads add to one key head.
TEST_CASE("attention has no races") {
  constexpr size_t kBatch = 2, kTokens = 300, kHeads = 4, kHidden = 32, kKeyColumns = 16;
  for (DType dtype : floats()) {
    INFO(name_of(dtype));
    const DType sums = accumulation_dtype(dtype);
    const Array qkv = zeros(dtype, {kBatch, kTokens, kHidden + 2 * kKeyColumns});
    const Array dqkv = zeros(dtype, {kBatch, kTokens, kHidden + 2 * kKeyColumns});
    const Array out = zeros(dtype, {kBatch, kTokens, kHidden});
    const Array dout = zeros(dtype, {kBatch, kTokens, kHidden});
    const Array logsumexp = zeros(sums, {kBatch, kHeads, kTokens});
    const Array row_dot = zeros(sums, {kBatch, kHeads, kTokens});
    for (const AttentionMask mask : {AttentionMask::causal, AttentionMask::none}) {
      CHECK(races_in([&] {
              cpu::attention_forward(stream, out, logsumexp, qkv, mask);
              cpu::attention_backward(stream, dqkv, row_dot, dout, out, logsumexp, qkv, mask);
            }) == 0);
    }
    const Array kv = zeros(dtype, {kBatch, kTokens, 2 * kKeyColumns});
    const Array sums_of_out = zeros(sums, {kBatch, kTokens, kHidden});
    const Array dkv = zeros(sums, {kBatch, kTokens, 2 * kKeyColumns});
    CHECK(races_in([&] {
            const ScoreTile block = {70, 200, 290};
            cpu::attention_of_tile_forward(stream, sums_of_out, logsumexp, qkv, kv, block);
            cpu::attention_merge(stream, sums_of_out, logsumexp, sums_of_out, row_dot, 70, 200);
            cpu::attention_row_dot(stream, row_dot, dout, out);
            cpu::attention_of_tile_backward(stream, sums_of_out, dkv, row_dot, dout, logsumexp, qkv,
                                            kv, block);
          }) == 0);
  }
}

TEST_CASE("the classifier's kernels have no races") {
  const Array targets = tokens(kRows, kColumns);
  for (DType dtype : floats()) {
    INFO(name_of(dtype));
    const DType sums = accumulation_dtype(dtype);
    const Array logits = zeros(sums, {kRows, kColumns}), dlogits = zeros(dtype, {kRows, kColumns});
    const Array maximum = zeros(sums, {kRows}), sum = zeros(sums, {kRows});
    const Array target_logit = zeros(sums, {kRows}), losses = zeros(sums, {kRows});
    CHECK(races_in([&] {
            cpu::softmax_maximum(stream, maximum, logits);
            cpu::softmax_exponentials(stream, logits, sum, target_logit, targets, maximum, 0);
            cpu::cross_entropy(stream, losses, dlogits, logits, sum, target_logit, targets, 0, 1);
            cpu::cross_entropy_loss(stream, losses, sum, target_logit);
          }) == 0);
  }
}

TEST_CASE("our own matrix product has no races") {
  constexpr size_t kSize = 200;  // three tiles each way
  const auto multiply = [&]<class T, class Out>(T, Out) {
    const std::vector<T> a(kSize * kSize), b(kSize * kSize);
    std::vector<Out> out(kSize * kSize);
    const cpu::Matrix<T> left = {a.data(), kSize, true}, right = {b.data(), kSize};
    return races_in([&] {
      for (bool accumulate : {false, true}) {
        cpu::blocked_gemm(kSize, kSize, kSize, left, right, accumulate, out.data(), kSize);
      }
    });
  };
  CHECK(multiply(double{}, double{}) == 0);
  CHECK(multiply(bfloat16{}, bfloat16{}) == 0);
  CHECK(multiply(bfloat16{}, float{}) == 0);
  CHECK(multiply(float16{}, float16{}) == 0);
}

}  // namespace
}  // namespace ladder::testing
