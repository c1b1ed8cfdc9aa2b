#include "kernels/fused_matmul.h"

#include "kernels/gelu.h"
#include "kernels/matmul.h"
#include "kernels/residual.h"
#include "tests/kernels/support.h"

#if LADDER_CUDA_EMULATOR
#include <cublas_v2.h>

#include "kernels/emulator/access.h"
#include "kernels/emulator/device_model.h"
#include "kernels/emulator/refusals.h"
#endif

namespace ladder {
namespace {
using namespace testing;

struct Extents {
  size_t m, n, k;
};
// The first two can be fused on a GPU.
constexpr Extents kExtents[] = {{16, 24, 32}, {64, 72, 8}, {16, 24, 31}, {5, 7, 3}, {16, 25, 32}};

// What the separate kernels compute. In 16 bits they round once more than a fused one: the sum
// before its bias, or the gradient before the derivative of GELU.
struct Separate {
  Separate(DType dtype, const Extents& e)
      : a(dtype, {e.m, e.k}, random_values(dtype, e.m * e.k, "a")),
        b(dtype, {e.k, e.n}, random_values(dtype, e.k * e.n, "b")),
        b_transposed(dtype, {e.n, e.k}, random_values(dtype, e.k * e.n, "b")),
        bias(dtype, {e.n}, random_values(dtype, e.n, "bias")),
        before(dtype, {e.m, e.n}),
        gelu(dtype, {e.m, e.n}),
        d_before(dtype, {e.m, e.n}),
        residual(dtype, {e.m, e.n}, random_values(dtype, e.m * e.n, "residual")),
        out(dtype, {e.m, e.n}) {
    matmul(stream(), before, a, b);
    add_bias(stream(), before, bias);
    gelu_forward(stream(), gelu, before);
    matmul(stream(), d_before, a, b_transposed, {.transpose_b = true});
    gelu_backward(stream(), d_before, d_before, before);
    matmul(stream(), out, a, b);
    add_residual(stream(), out, residual, out, bias);
  }

  Array a, b, b_transposed, bias, before, gelu, d_before;
  Array residual, out;
};

// The same bits where nothing is fused. With k terms of at most 1 and a bias, a sum in 16 bits that
// is rounded once more differs by a rounding of k + 1; GELU's slope is at most 1.13. A residual is
// one more term, which the factor 1.13 covers for k >= 8.
void require_alike(DType dtype, const Extents& e, const Array& found, const Array& expected) {
  const bool may_fuse = size_of(dtype) == 2 && e.m % 8 == 0 && e.n % 8 == 0 && e.k % 8 == 0 &&
                        stream().device() != DeviceType::cpu;
  if (!may_fuse) return require_same_bits(found.values(), expected.values());
  const Values sizes(e.m * e.n, 1.13 * (static_cast<double>(e.k) + 1));
  require_within(dtype, found.values(), expected.values(), storage_error(dtype, 2), sizes);
}

TEST_CASE("fused products equal the kernels one after the other") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (const Extents& e : kExtents) {
      INFO(name_of(dtype) << " " << e.m << "x" << e.n << "x" << e.k);
      const Separate separate(dtype, e);
      const Array out(dtype, {e.m, e.n}), before(dtype, {e.m, e.n}), gelu(dtype, {e.m, e.n});
      const Array din(dtype, {e.m, e.n});
      matmul_bias(stream(), out, separate.a, separate.b, separate.bias);
      require_alike(dtype, e, out, separate.before);
      matmul_bias_gelu(stream(), gelu, before, separate.a, separate.b, separate.bias);
      require_same_bits(before.values(), out.values());
      require_alike(dtype, e, gelu, separate.gelu);
      matmul_gelu_backward(stream(), din, separate.a, separate.b_transposed, separate.before);
      require_alike(dtype, e, din, separate.d_before);
      const Array sum(dtype, {e.m, e.n});
      matmul_residual(stream(), sum, separate.a, separate.b, separate.bias, separate.residual);
      require_alike(dtype, e, sum, separate.out);
    }
  }
}

// Products on tensor cores read 16 bytes at a time. What they cannot read so is not fused.
TEST_CASE("matmul_residual takes a residual at any address") {
  const OnDevice on = on_every_device();
  const Extents e = kExtents[0];
  for (DType dtype : floats()) {
    const Separate separate(dtype, e);
    const Values values = separate.residual.values();
    Values moved(1, 0);
    moved.insert(moved.end(), values.begin(), values.end());
    const Array room(dtype, {moved.size()}, moved), sum(dtype, {e.m, e.n});
    matmul_residual(stream(), sum, separate.a, separate.b, separate.bias,
                    room.view().elements(1, {e.m, e.n}));
    require_same_bits(sum.values(), separate.out.values());
  }
}

#if LADDER_CUDA_EMULATOR
// Calls all four and requires the bits of the separate kernels.
void require_separate(DType dtype, const Extents& e) {
  const Separate separate(dtype, e);
  const Array out(dtype, {e.m, e.n}), before(dtype, {e.m, e.n});
  matmul_bias(stream(), out, separate.a, separate.b, separate.bias);
  require_same_bits(out.values(), separate.before.values());
  matmul_bias_gelu(stream(), out, before, separate.a, separate.b, separate.bias);
  require_same_bits(before.values(), separate.before.values());
  require_same_bits(out.values(), separate.gelu.values());
  matmul_gelu_backward(stream(), out, separate.a, separate.b_transposed, separate.before);
  require_same_bits(out.values(), separate.d_before.values());
  matmul_residual(stream(), out, separate.a, separate.b, separate.bias, separate.residual);
  require_same_bits(out.values(), separate.out.values());
}

TEST_CASE("where cuBLASLt has no algorithm, the kernels run one after the other") {
  const OnDevice on(Place{DeviceType::emulator, true});
  size_t rows = 8;  // of products that were not planned before
  for (cublasStatus_t status : {CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_SUPPORTED}) {
    for (DType dtype : {DType::bf16, DType::fp16}) {
      const emulator::Refusal none({"cublasLtMatmulAlgoGetHeuristic", status});
      const Extents e = {rows += 32, 24, 32};
      require_separate(dtype, e);
      const size_t asked = none.num_calls();
      CHECK(asked == 3);  // a residual is no product of its own
      require_separate(dtype, e);
      CHECK(none.num_calls() == asked);
    }
  }
  const emulator::Refusal failure({"cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_INVALID_VALUE});
  CHECK_THROWS_WITH(require_separate(DType::bf16, {rows + 32, 24, 32}),
                    ContainsSubstring("cublasLtMatmulAlgoGetHeuristic: invalid argument"));
}

// How many multiprocessors each product may use.
struct Multiprocessors final : emulator::Observer {
  Multiprocessors() { attach(*this); }
  ~Multiprocessors() override { detach(*this); }
  void product(int multiprocessors) override { all.push_back(multiprocessors); }
  std::vector<int> all;
};

TEST_CASE("products of cuBLAS and of cuBLASLt leave multiprocessors to others") {
  const OnDevice on(Place{DeviceType::emulator, true});
  const Extents e = {24, 40, 32};
  const Array a(DType::bf16, {e.m, e.k}), b(DType::bf16, {e.k, e.n}), out(DType::bf16, {e.m, e.n});
  const Array bias(DType::bf16, {e.n});
  const auto used = [&] {
    const Multiprocessors seen;
    matmul(stream(), out, a, b);
    matmul_bias(stream(), out, a, b, bias);  // both times the same sizes
    stream().synchronize();
    return seen.all;
  };
  const int all = emulator::device_model().multiprocessors;
  CHECK(used() == std::vector{0, 0});
  leave_multiprocessors(16);
  CHECK(used() == std::vector{all - 16, all - 16});
  leave_multiprocessors(0);
  CHECK(used() == std::vector{0, 0});
  CHECK_THROWS_WITH(leave_multiprocessors(static_cast<size_t>(all)),
                    ContainsSubstring(concat("are to leave ", all, " multiprocessors free")) &&
                        ContainsSubstring("--nccl-ctas"));
  CHECK(used() == std::vector{0, 0});
}
#endif

TEST_CASE("fused products name a wrong argument") {
  const Extents e = {16, 24, 32};
  const Separate s(DType::fp32, e);
  const Array narrow(DType::fp32, {e.m, e.k});
  CHECK_THROWS_WITH(matmul_bias(stream(), narrow, s.a, s.b, s.bias),
                    ContainsSubstring("matmul_bias: argument `out`"));
  CHECK_THROWS_WITH(matmul_bias_gelu(stream(), s.gelu, narrow, s.a, s.b, s.bias),
                    ContainsSubstring("matmul_bias_gelu: argument `before`"));
  CHECK_THROWS_WITH(matmul_residual(stream(), s.out, s.a, s.b, s.bias, narrow),
                    ContainsSubstring("matmul_residual: argument `residual`"));
  CHECK_THROWS_WITH(matmul_gelu_backward(stream(), narrow, s.a, s.b_transposed, s.before),
                    ContainsSubstring("matmul_gelu_backward: argument `din`"));
}

}  // namespace
}  // namespace ladder
