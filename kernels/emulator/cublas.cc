#include <cublas_v2.h>

#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/emulator/arena.h"
#include "kernels/emulator/host_state.h"

struct cublasContext {};

namespace ladder::emulator {
namespace {

struct Handles {
  std::mutex mutex;
  std::unordered_set<cublasHandle_t> alive;
};

Handles& handles() {
  static Handles* const all = new Handles;
  return *all;
}

bool is_handle(cublasHandle_t handle) {
  const std::lock_guard lock(handles().mutex);
  return handles().alive.contains(handle);
}

// A matrix, or several of them a stride apart.
template <class T>
struct Operand {
  T* data;
  int64_t leading;
  long long stride;
  cublasOperation_t op = CUBLAS_OP_N;

  bool transposed() const { return op != CUBLAS_OP_N; }
  // Is op(this) a (rows, columns) matrix, `count` times, that lies in device memory?
  bool is_valid(int64_t rows, int64_t columns, int64_t count) const {
    if (op < CUBLAS_OP_N || op > CUBLAS_OP_C || stride < 0) return false;
    const int64_t height = transposed() ? columns : rows, width = transposed() ? rows : columns;
    if (leading < std::max<int64_t>(1, height)) return false;
    if (height == 0 || width == 0) return true;
    const auto elements =
        static_cast<size_t>((count - 1) * stride + (width - 1) * leading + height);
    return Arena::instance().holds(data, elements * sizeof(T));
  }
};

template <class T>
struct Product {
  int64_t m, n, k;
  T alpha, beta;
};

// c = beta c + alpha product (column-major, m rows); the product is zero where it is nullptr.
template <class T>
void combine(const Product<T>& p, const T* product, T* c, int64_t ldc) {
  for (int64_t j = 0; j < p.n; ++j) {
    for (int64_t i = 0; i < p.m; ++i) {
      const T added = product == nullptr ? 0 : p.alpha * product[j * p.m + i];
      T& element = c[j * ldc + i];
      element = p.beta == 0 ? added : p.beta * element + added;
    }
  }
}

// One product. Read by rows, a column-major matrix is its own transpose, so that what is computed
// is C^T = op(B)^T op(A)^T: the factors change places and keep their operation.
template <class T>
void multiply(const Product<T>& p, const Operand<const T>& a, const Operand<const T>& b, T* c,
              int64_t ldc) {
  const auto multiply_into = [&](bool accumulate, T* out, int64_t ldout) {
    const auto size = [](int64_t value) { return static_cast<size_t>(value); };
    cpu::gemm(
        size(p.n), size(p.m), size(p.k), cpu::Matrix<T>{b.data, size(b.leading), b.transposed()},
        cpu::Matrix<T>{a.data, size(a.leading), a.transposed()}, accumulate, out, size(ldout));
  };
  if (p.k == 0 || p.alpha == 0) {
    combine<T>(p, nullptr, c, ldc);
  } else if (p.alpha == 1 && (p.beta == 0 || p.beta == 1)) {
    multiply_into(p.beta == 1, c, ldc);
  } else {
    std::vector<T> product(static_cast<size_t>(p.m * p.n));
    multiply_into(false, product.data(), p.m);
    combine<T>(p, product.data(), c, ldc);
  }
}

template <class T>
cublasStatus_t gemm(cublasHandle_t handle, int64_t m, int64_t n, int64_t k, const T* alpha,
                    Operand<const T> a, Operand<const T> b, const T* beta, Operand<T> c,
                    int64_t count) {
  const Arena& arena = Arena::instance();
  const auto on_host = [&](const T* p) { return p != nullptr && !arena.contains(p); };
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || count < 0 || !on_host(alpha) || !on_host(beta)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0 || count == 0) return CUBLAS_STATUS_SUCCESS;
  if (!a.is_valid(m, k, count) || !b.is_valid(k, n, count) || !c.is_valid(m, n, count)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const DeviceAccess access;
  for (int64_t i = 0; i < count; ++i) {
    multiply<T>({m, n, k, *alpha, *beta}, a, b, c.data, c.leading);
    a.data += a.stride;
    b.data += b.stride;
    c.data += c.stride;
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace ladder::emulator

using namespace ladder::emulator;

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "not a live cuBLAS handle";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "invalid argument";
  }
  return "unrecognized status";
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new cublasContext;
  const std::lock_guard lock(handles().mutex);
  handles().alive.insert(*handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  const std::lock_guard lock(handles().mutex);
  if (handles().alive.erase(handle) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  return is_stream(stream) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool known = mode == CUBLAS_DEFAULT_MATH || mode == CUBLAS_PEDANTIC_MATH ||
                     mode == CUBLAS_TF32_TENSOR_OP_MATH;
  return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes) {
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool fine = bytes == 0 || (reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0 &&
                                   Arena::instance().holds(workspace, bytes));
  return fine ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasSgemm_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                              int64_t m, int64_t n, int64_t k, const float* alpha, const float* a,
                              int64_t lda, const float* b, int64_t ldb, const float* beta, float* c,
                              int64_t ldc) {
  return gemm<float>(handle, m, n, k, alpha, {a, lda, 0, op_a}, {b, ldb, 0, op_b}, beta,
                     {c, ldc, 0}, 1);
}

cublasStatus_t cublasDgemm_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                              int64_t m, int64_t n, int64_t k, const double* alpha, const double* a,
                              int64_t lda, const double* b, int64_t ldb, const double* beta,
                              double* c, int64_t ldc) {
  return gemm<double>(handle, m, n, k, alpha, {a, lda, 0, op_a}, {b, ldb, 0, op_b}, beta,
                      {c, ldc, 0}, 1);
}

cublasStatus_t cublasSgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t op_a,
                                            cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
                                            const float* alpha, const float* a, int64_t lda,
                                            long long stride_a, const float* b, int64_t ldb,
                                            long long stride_b, const float* beta, float* c,
                                            int64_t ldc, long long stride_c, int64_t count) {
  return gemm<float>(handle, m, n, k, alpha, {a, lda, stride_a, op_a}, {b, ldb, stride_b, op_b},
                     beta, {c, ldc, stride_c}, count);
}

cublasStatus_t cublasDgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t op_a,
                                            cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
                                            const double* alpha, const double* a, int64_t lda,
                                            long long stride_a, const double* b, int64_t ldb,
                                            long long stride_b, const double* beta, double* c,
                                            int64_t ldc, long long stride_c, int64_t count) {
  return gemm<double>(handle, m, n, k, alpha, {a, lda, stride_a, op_a}, {b, ldb, stride_b, op_b},
                      beta, {c, ldc, stride_c}, count);
}
