// cuBLAS: products against plain loops, for every operation, leading dimension, alpha and beta.
#include <cublasLt.h>
#include <cublas_v2.h>

#include <cmath>
#include <limits>

#include "kernels/runtime/dtype.h"
#include "tests/catch.h"
#include "tests/kernels/emulator/support.h"

namespace ladder {
namespace {

// A handle with what products demand: a workspace, and sums in fp32.
struct Handle {
  Handle() {
    REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasSetWorkspace(handle, workspace.data(), 1024) == CUBLAS_STATUS_SUCCESS);
    set_mode(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  }
  ~Handle() { cublasDestroy(handle); }
  operator cublasHandle_t() const { return handle; }
  void set_mode(int mode) const {
    REQUIRE(cublasSetMathMode(handle, static_cast<cublasMath_t>(mode)) == CUBLAS_STATUS_SUCCESS);
  }
  cublasHandle_t handle = nullptr;
  DeviceArray<char> workspace{1024};
};

template <class T>
constexpr cudaDataType_t kType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kType<double> = CUDA_R_64F;
template <>
constexpr cudaDataType_t kType<bfloat16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t kType<float16> = CUDA_R_16F;

// cublasGemmEx_64 with what follows from the types of elements.
template <class T, class Out, class S = Accumulate<T>>
cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                    int64_t m, int64_t n, int64_t k, const S* alpha, const T* a, int64_t lda,
                    const T* b, int64_t ldb, const S* beta, Out* c, int64_t ldc,
                    cublasComputeType_t compute_type = sizeof(S) == 8 ? CUBLAS_COMPUTE_64F
                                                                      : CUBLAS_COMPUTE_32F) {
  return cublasGemmEx_64(handle, op_a, op_b, m, n, k, alpha, a, kType<T>, lda, b, kType<T>, ldb,
                         beta, c, kType<Out>, ldc, compute_type, CUBLAS_GEMM_DEFAULT);
}

// Of factors and of the product.
template <class T_, class Out_>
struct Types {
  using T = T_;
  using Out = Out_;
};

// Small integers, so that every product and sum is exact, whatever its order.
template <class T>
std::vector<T> integers(size_t size, int seed) {
  std::vector<T> values(size);
  for (size_t i = 0; i < size; ++i)
    values[i] = static_cast<T>(static_cast<float>((static_cast<int>(i) * seed) % 7 - 3));
  return values;
}

// Element (i, j) of op(X).
template <class T>
T element(const std::vector<T>& x, int64_t leading, cublasOperation_t op, int64_t i, int64_t j) {
  return x[static_cast<size_t>(op == CUBLAS_OP_N ? i + j * leading : j + i * leading)];
}

TEMPLATE_TEST_CASE("products of column-major matrices", "", (Types<float, float>),
                   (Types<double, double>), (Types<bfloat16, bfloat16>), (Types<bfloat16, float>),
                   (Types<float16, float16>), (Types<float16, float>)) {
  using T = typename TestType::T;
  using Out = typename TestType::Out;
  using S = Accumulate<T>;
  const Handle handle;
  const auto op_a = GENERATE(CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C);
  const auto op_b = GENERATE(CUBLAS_OP_N, CUBLAS_OP_T);
  const auto [m, n, k] =
      GENERATE(table<int64_t, int64_t, int64_t>({{1, 1, 1}, {3, 5, 7}, {17, 2, 9}}));
  const auto [alpha, beta] = GENERATE(table<S, S>({{1, 0}, {1, 1}, {2, 0}, {-1, 3}, {0, 2}}));
  const int64_t lda = (op_a == CUBLAS_OP_N ? m : k) + 2, ldb = (op_b == CUBLAS_OP_N ? k : n) + 1;
  const int64_t ldc = m + 3;
  const auto a = integers<T>(static_cast<size_t>(lda * (op_a == CUBLAS_OP_N ? k : m)), 3);
  const auto b = integers<T>(static_cast<size_t>(ldb * (op_b == CUBLAS_OP_N ? n : k)), 5);
  const auto c = integers<Out>(static_cast<size_t>(ldc * n), 2);
  const DeviceArray<T> device_a(a), device_b(b);
  const DeviceArray<Out> device_c(c);
  REQUIRE(gemm(handle, op_a, op_b, m, n, k, &alpha, device_a.data(), lda, device_b.data(), ldb,
               &beta, device_c.data(), ldc) == CUBLAS_STATUS_SUCCESS);
  std::vector<Out> expected = c;  // also between the columns, where nothing may change
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < m; ++i) {
      S sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum += element(a, lda, op_a, i, p) * element(b, ldb, op_b, p, j);
      Out& out = expected[static_cast<size_t>(i + j * ldc)];
      out = static_cast<Out>(alpha * sum + beta * out);
    }
  }
  CAPTURE(op_a, op_b, m, n, k, alpha, beta);
  CHECK(device_c.values() == expected);
}

TEMPLATE_TEST_CASE("with beta 0, what was in C does not count; with k = 0 only beta does", "",
                   float, double, bfloat16, float16) {
  using T = TestType;
  using S = Accumulate<T>;
  const Handle handle;
  const S one = 1, zero = 0, three = 3, nan = std::numeric_limits<S>::quiet_NaN();
  const DeviceArray<T> a(std::vector{static_cast<T>(S{2})}), c(std::vector{static_cast<T>(nan)});
  const auto multiply = [&](int64_t k, const S& alpha, const S& beta) {
    REQUIRE(gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, k, &alpha, a.data(), 1, a.data(),
                 std::max<int64_t>(k, 1), &beta, c.data(), 1) == CUBLAS_STATUS_SUCCESS);
    return c.values()[0];
  };
  CHECK(multiply(1, one, zero) == 4);
  CHECK(multiply(1, three, zero) == 12);
  CHECK(multiply(0, one, three) == 36);
  CHECK(multiply(0, one, zero) == 0);
}

TEST_CASE("what is scaled and added is rounded once, also in 16 bits") {
  const Handle handle;
  // 3 x 171 - 2 x 1.5 = 510. With 513 rounded to bf16 before, to 512, it would be 509, and 508.
  const DeviceArray<bfloat16> a(std::vector{bfloat16(171.0f)}), b(std::vector{bfloat16(1.0f)});
  const DeviceArray<bfloat16> c(std::vector{bfloat16(-1.5f)});
  const float three = 3, two = 2;
  REQUIRE(gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &three, a.data(), 1, b.data(), 1, &two,
               c.data(), 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(c.values()[0] == 510);
}

TEST_CASE("TF32 rounds the factors of fp32, and only where it is asked for") {
  const Handle handle;
  // The first is halfway between two numbers of TF32, the others a little below and above.
  const std::vector<float> factors = {1 + 0x1p-11F, 1 + 0x1.FEp-12F, -1 - 0x1.01p-11F, 3};
  const std::vector<float> in_tf32 = {1 + 0x1p-10F, 1, -1 - 0x1p-10F, 3};
  const DeviceArray<float> a(factors), one_by_one(std::vector<float>{1}), c(4);
  const float one = 1, zero = 0;
  const auto product = [&](cublasComputeType_t compute_type) {
    REQUIRE(gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 1, 1, &one, a.data(), 4, one_by_one.data(), 1,
                 &zero, c.data(), 4, compute_type) == CUBLAS_STATUS_SUCCESS);
    const std::vector<float> by_rows = c.values();
    REQUIRE(gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 4, 1, &one, one_by_one.data(), 1, a.data(), 1,
                 &zero, c.data(), 1, compute_type) == CUBLAS_STATUS_SUCCESS);
    CHECK(c.values() == by_rows);  // whichever factor it is
    return by_rows;
  };
  CHECK(product(CUBLAS_COMPUTE_32F) == factors);
  CHECK(product(CUBLAS_COMPUTE_32F_FAST_TF32) == in_tf32);
  handle.set_mode(CUBLAS_TF32_TENSOR_OP_MATH);
  REQUIRE(cublasSetStream(handle, nullptr) == CUBLAS_STATUS_SUCCESS);  // it keeps the mode
  REQUIRE(cublasSetWorkspace(handle, handle.workspace.data(), 1024) == CUBLAS_STATUS_SUCCESS);
  CHECK(product(CUBLAS_COMPUTE_32F) == in_tf32);
  handle.set_mode(CUBLAS_PEDANTIC_MATH);
  CHECK(product(CUBLAS_COMPUTE_32F) == factors);
}

TEST_CASE("a product whose sum a GPU might split in another way, or in 16 bits, is an error") {
  const Handle handle;
  const DeviceArray<bfloat16> bf16(1), out(1);
  const DeviceArray<float> fp32(1), fp32_out(1);
  const float one = 1, zero = 0;
  const auto multiply = [&](const auto& in, const auto& result) {
    return gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, in.data(), 1, in.data(), 1, &zero,
                result.data(), 1);
  };
  handle.set_mode(CUBLAS_DEFAULT_MATH);
  CHECK_THROWS_WITH(multiply(bf16, out), ContainsSubstring("in 16 bits"));
  CHECK_THROWS_WITH(multiply(bf16, fp32_out), ContainsSubstring("in 16 bits"));
  CHECK(multiply(fp32, fp32_out) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasSetStream(handle, nullptr) == CUBLAS_STATUS_SUCCESS);  // it resets the workspace
  CHECK_THROWS_WITH(multiply(fp32, fp32_out), ContainsSubstring("without a workspace"));
}

TEST_CASE("types that do not go together are not supported") {
  const Handle handle;
  const DeviceArray<double> a(1), c(1);
  const double one = 1, zero = 0;
  const auto status = [&](cudaDataType_t a_type, cudaDataType_t b_type, cudaDataType_t c_type,
                          cublasComputeType_t compute_type) {
    return cublasGemmEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a.data(), a_type, 1,
                           a.data(), b_type, 1, &zero, c.data(), c_type, 1, compute_type,
                           CUBLAS_GEMM_DEFAULT);
  };
  const std::vector<cudaDataType_t> types = {CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_R_16BF};
  for (const auto a_type : types) {
    for (const auto b_type : types) {
      for (const auto c_type : types) {
        const auto supports = [&](cublasComputeType_t compute_type) {
          const auto got = status(a_type, b_type, c_type, compute_type);
          CHECK((got == CUBLAS_STATUS_SUCCESS || got == CUBLAS_STATUS_NOT_SUPPORTED));
          return got == CUBLAS_STATUS_SUCCESS;
        };
        CAPTURE(a_type, b_type, c_type);
        const bool same = a_type == b_type && a_type == c_type;
        const bool is_double = a_type == CUDA_R_64F;
        CHECK(supports(CUBLAS_COMPUTE_64F) == (same && is_double));
        CHECK(supports(CUBLAS_COMPUTE_32F_FAST_TF32) == (same && a_type == CUDA_R_32F));
        CHECK(supports(CUBLAS_COMPUTE_32F) ==
              (!is_double && (same || (a_type == b_type && c_type == CUDA_R_32F))));
      }
    }
  }
}

TEST_CASE("wrong arguments of a product are refused, and nothing is written") {
  const Handle handle;
  const DeviceArray<float> in(std::vector<float>(6, 1)), out(std::vector<float>(6, 5));
  const float one = 1, zero = 0;
  std::vector<float> host(6);
  // What is right but for one argument: (2, 3) x (3, 2).
  struct Call {
    cublasOperation_t op_a = CUBLAS_OP_N;
    int64_t m = 2, n = 2, k = 3, lda = 2, ldb = 3, ldc = 2;
    const float *alpha, *a, *b, *beta;
    float* c;
  };
  const Call right{.alpha = &one, .a = in.data(), .b = in.data(), .beta = &zero, .c = out.data()};
  const auto status = [&](auto change) {
    Call call = right;
    change(call);
    return gemm(handle, call.op_a, CUBLAS_OP_N, call.m, call.n, call.k, call.alpha, call.a,
                call.lda, call.b, call.ldb, call.beta, call.c, call.ldc);
  };
  const auto bad = CUBLAS_STATUS_INVALID_VALUE;
  CHECK(status([](Call& c) { c.op_a = static_cast<cublasOperation_t>(3); }) == bad);
  CHECK(status([](Call& c) { c.m = -1; }) == bad);
  CHECK(status([](Call& c) { c.n = -1; }) == bad);
  CHECK(status([](Call& c) { c.k = -1; }) == bad);
  CHECK(status([](Call& c) { c.lda = 1; }) == bad);
  CHECK(status([](Call& c) { c.ldb = 2; }) == bad);
  CHECK(status([](Call& c) { c.ldc = 1; }) == bad);
  CHECK(status([](Call& c) { c.lda = 3; }) == bad);  // leaves the allocation
  CHECK(status([](Call& c) { c.ldc = 5; }) == bad);
  CHECK(status([](Call& c) { c.alpha = nullptr; }) == bad);
  CHECK(status([](Call& c) { c.beta = c.a; }) == bad);  // must be host memory
  CHECK(status([](Call& c) { c.a = nullptr; }) == bad);
  CHECK(status([&](Call& c) { c.b = host.data(); }) == bad);  // must be device memory
  CHECK(status([&](Call& c) { c.c = host.data(); }) == bad);
  CHECK(status([](Call& c) { c.m = 0; }) == CUBLAS_STATUS_SUCCESS);
  CHECK(out.values() == std::vector<float>(6, 5));
  CHECK(status([](Call&) {}) == CUBLAS_STATUS_SUCCESS);
  CHECK(out.values() == std::vector<float>{3, 3, 3, 3, 5, 5});
}

TEST_CASE("cuBLASLt: a preference that allows sums in 16 bits is an error") {
  const Handle handle;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  REQUIRE(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 8, 8, 8) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS);
  const auto allow = [&](uint32_t schemes) {
    REQUIRE(cublasLtMatmulPreferenceSetAttribute(
                preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes) ==
            CUBLAS_STATUS_SUCCESS);
  };
  const auto choose = [&] {
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    cublasLtMatmulAlgoGetHeuristic(reinterpret_cast<cublasLtHandle_t>(handle.handle), description,
                                   layout, layout, layout, layout, preference, 1, &best, &found);
    return found;
  };
  CHECK_THROWS_WITH(choose(), ContainsSubstring("in 16 bits"));  // all schemes, if none is set
  for (uint32_t scheme :
       {CUBLASLT_REDUCTION_SCHEME_INPLACE, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE}) {
    allow(scheme | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    CHECK_THROWS_WITH(choose(), ContainsSubstring("in 16 bits"));
  }
  for (uint32_t scheme : {CUBLASLT_REDUCTION_SCHEME_NONE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) {
    allow(scheme);
    CHECK(choose() == 1);
  }
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(description);
}

TEST_CASE("handles, streams, modes and workspaces are checked") {
  cublasHandle_t handle = nullptr;
  CHECK(cublasCreate(nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSetStream(nullptr, nullptr) == CUBLAS_STATUS_NOT_INITIALIZED);
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetStream(handle, nullptr) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetStream(handle, reinterpret_cast<cudaStream_t>(8)) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetMathMode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) ==
        CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetMathMode(handle, static_cast<cublasMath_t>(1)) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSetMathMode(handle, static_cast<cublasMath_t>(17)) == CUBLAS_STATUS_INVALID_VALUE);
  const DeviceArray<char> workspace(1024);
  CHECK(cublasSetWorkspace(handle, workspace.data(), 1024) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetWorkspace(handle, workspace.data(), 1025) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSetWorkspace(handle, workspace.data() + 1, 10) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasDestroy(handle) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasSetStream(handle, nullptr) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(std::string(cublasGetStatusString(CUBLAS_STATUS_INVALID_VALUE)) == "invalid argument");
}

}  // namespace
}  // namespace ladder
