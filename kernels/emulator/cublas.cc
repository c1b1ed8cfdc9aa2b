#include <cublas_v2.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/emulator/arena.h"
#include "kernels/emulator/device_model.h"
#include "kernels/emulator/host_state.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/observers.h"
#include "kernels/emulator/refusals.h"
#include "kernels/emulator/streams.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/dtype.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  int mode = CUBLAS_DEFAULT_MATH;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  int multiprocessors = 0;
};

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

template <class T>
struct Operand {
  T* data;
  int64_t leading;
  cublasOperation_t op = CUBLAS_OP_N;

  bool transposed() const { return op != CUBLAS_OP_N; }
  // Returns whether op(this) is a (rows, columns) matrix in device memory.
  bool is_valid(int64_t rows, int64_t columns) const {
    if (op < CUBLAS_OP_N || op > CUBLAS_OP_C) return false;
    const int64_t height = transposed() ? columns : rows;
    if (leading < std::max<int64_t>(1, height)) return false;
    if (rows == 0 || columns == 0) return true;
    return Arena::instance().holds(data, num_elements(rows, columns) * sizeof(T));
  }
  // Returns the elements from the first to the last one, those between the columns included.
  size_t num_elements(int64_t rows, int64_t columns) const {
    const int64_t height = transposed() ? columns : rows, width = transposed() ? rows : columns;
    return static_cast<size_t>((width - 1) * leading + height);
  }
  // Tells the observer that the matrix is read, column after column.
  void tell_read(Observer& observer, int64_t rows, int64_t columns) const {
    const int64_t height = transposed() ? columns : rows, width = transposed() ? rows : columns;
    for (int64_t j = 0; j < width; ++j) {
      observer.read(data + j * leading, static_cast<size_t>(height) * sizeof(T));
    }
  }
};

// S is the type in which the product is computed.
template <class S>
struct Product {
  int64_t m, n, k;
  S alpha, beta;
  bool in_tf32;  // whether factors of fp32 are rounded to TF32
};

// Rounds to the 11 significant bits of TF32, ties away from zero.
float to_tf32(float x) {
  constexpr uint32_t kLast = uint32_t{1} << 13;
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + kLast / 2) & ~(kLast - 1));
}

// A factor rounded to TF32, in memory of its own. op(factor) is a (rows, columns) matrix.
struct RoundedFactor {
  RoundedFactor(const Operand<const float>& factor, int64_t rows, int64_t columns)
      : values(factor.data, factor.data + factor.num_elements(rows, columns)),
        operand{values.data(), factor.leading, factor.op} {
    std::ranges::transform(values, values.begin(), to_tf32);
  }
  std::vector<float> values;
  Operand<const float> operand;
};

// c = beta c + alpha product, column-major with m rows. If `product` is nullptr it counts as zero.
template <class S, class Out>
void combine(const Product<S>& p, const S* product, const Operand<Out>& c) {
  for (int64_t j = 0; j < p.n; ++j) {
    for (int64_t i = 0; i < p.m; ++i) {
      const S added = product == nullptr ? 0 : p.alpha * product[j * p.m + i];
      Out& element = c.data[j * c.leading + i];
      element = static_cast<Out>(p.beta == 0 ? added : p.beta * element + added);
    }
  }
}

// Computes one product. Read by rows, a column-major matrix is its own transpose. So we compute
// C^T = op(B)^T op(A)^T: the factors change places and keep their operations.
template <class S, class T, class Out>
void multiply(Product<S> p, const Operand<const T>& a, const Operand<const T>& b,
              const Operand<Out>& c) {
  if constexpr (std::is_same_v<T, float>) {
    if (std::exchange(p.in_tf32, false) && p.k > 0) {
      const RoundedFactor rounded_a(a, p.m, p.k), rounded_b(b, p.k, p.n);
      return multiply<S, T>(p, rounded_a.operand, rounded_b.operand, c);
    }
  }
  const auto multiply_into = [&](bool accumulate, auto* out, int64_t ldout) {
    const auto size = [](int64_t value) { return static_cast<size_t>(value); };
    cpu::gemm(
        size(p.n), size(p.m), size(p.k), cpu::Matrix<T>{b.data, size(b.leading), b.transposed()},
        cpu::Matrix<T>{a.data, size(a.leading), a.transposed()}, accumulate, out, size(ldout));
  };
  if (p.k == 0 || p.alpha == 0) {
    combine<S>(p, nullptr, c);
  } else if (p.alpha == 1 && (p.beta == 0 || p.beta == 1)) {
    multiply_into(p.beta == 1, c.data, c.leading);
  } else {
    std::vector<S> product(static_cast<size_t>(p.m * p.n));
    multiply_into(false, product.data(), p.m);
    combine<S>(p, product.data(), c);
  }
}

template <class T, class Out, class S = Accumulate<T>>
cublasStatus_t gemm(const cublasContext& handle, bool in_tf32, int64_t m, int64_t n, int64_t k,
                    const void* alpha, const Operand<const T>& a, const Operand<const T>& b,
                    const void* beta, const Operand<Out>& c) {
  const auto on_host = [](const void* p) { return p != nullptr && !Arena::instance().contains(p); };
  if (m < 0 || n < 0 || k < 0 || !on_host(alpha) || !on_host(beta)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const auto valid = [=] {
    return a.is_valid(m, k) && b.is_valid(k, n) && c.is_valid(m, n) &&
           Arena::instance().holds(handle.workspace, handle.workspace_bytes);
  };
  if (!valid()) return CUBLAS_STATUS_INVALID_VALUE;
  const Product<S> p = {.m = m,
                        .n = n,
                        .k = k,
                        .alpha = *static_cast<const S*>(alpha),
                        .beta = *static_cast<const S*>(beta),
                        .in_tf32 = in_tf32};
  give(handle.stream, [=] {
    check(valid(), "cublasGemmEx: its memory was freed before its stream came to it");
    tell_observers([&](Observer& observer) {
      observer.work_is("a product of cuBLAS");
      observer.product(handle.multiprocessors);
    });
    if (launches_are_sampled()) return;
    const DeviceAccess access;
    multiply<S>(p, a, b, c);
    tell_observers([&](Observer& observer) {
      a.tell_read(observer, m, k);
      b.tell_read(observer, k, n);
      for (int64_t j = 0; j < n; ++j) {
        observer.written(c.data + j * c.leading, static_cast<size_t>(m) * sizeof(Out));
      }
    });
  });
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
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "out of memory";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "invalid argument";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "types that are not supported together";
  }
  return "unrecognized status";
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (const auto status = refused("cublasCreate")) return static_cast<cublasStatus_t>(*status);
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
  if (!is_stream(stream)) return CUBLAS_STATUS_INVALID_VALUE;
  handle->stream = stream;
  handle->workspace_bytes = 0;  // the workspace is cuBLAS' own again
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const int rounding = mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  const bool known = rounding == CUBLAS_DEFAULT_MATH || rounding == CUBLAS_PEDANTIC_MATH ||
                     rounding == CUBLAS_TF32_TENSOR_OP_MATH;
  if (!known) return CUBLAS_STATUS_INVALID_VALUE;
  handle->mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count) {
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (count < 0 || count > device_model().multiprocessors) return CUBLAS_STATUS_INVALID_VALUE;
  handle->multiprocessors = count;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes) {
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool fine = bytes == 0 || (reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0 &&
                                   Arena::instance().holds(workspace, bytes));
  if (!fine) return CUBLAS_STATUS_INVALID_VALUE;
  handle->workspace = workspace;
  handle->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t op_a,
                               cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
                               const void* alpha, const void* a, cudaDataType_t a_type, int64_t lda,
                               const void* b, cudaDataType_t b_type, int64_t ldb, const void* beta,
                               void* c, cudaDataType_t c_type, int64_t ldc,
                               cublasComputeType_t compute_type, cublasGemmAlgo_t algorithm) {
  using ladder::bfloat16, ladder::float16;
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (algorithm != CUBLAS_GEMM_DEFAULT) return CUBLAS_STATUS_INVALID_VALUE;
  ladder::check(handle->workspace_bytes > 0,
                "cublasGemmEx: without a workspace of the handle's own a GPU may split a sum in "
                "another way in each run");
  const bool splits_in_fp32 = handle->mode & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  ladder::check(splits_in_fp32 || a_type == CUDA_R_32F || a_type == CUDA_R_64F,
                "cublasGemmEx: the math mode lets a GPU add the parts of a split sum in 16 bits");
  const bool in_tf32 = compute_type == CUBLAS_COMPUTE_32F_FAST_TF32 ||
                       (handle->mode & CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_TF32_TENSOR_OP_MATH;
  const auto call = [&]<class T, class Out>(T, Out) {
    return gemm<T, Out>(*handle, in_tf32, m, n, k, alpha, {static_cast<const T*>(a), lda, op_a},
                        {static_cast<const T*>(b), ldb, op_b}, beta, {static_cast<Out*>(c), ldc});
  };
  const auto is = [&](cudaDataType_t in, cudaDataType_t out, cublasComputeType_t computed) {
    return a_type == in && b_type == in && c_type == out && compute_type == computed;
  };
  if (is(CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F)) return call(double{}, double{});
  if (is(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F)) return call(float{}, float{});
  if (is(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32)) return call(float{}, float{});
  if (is(CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F)) return call(bfloat16{}, bfloat16{});
  if (is(CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F)) return call(bfloat16{}, float{});
  if (is(CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F)) return call(float16{}, float16{});
  if (is(CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F)) return call(float16{}, float{});
  return CUBLAS_STATUS_NOT_SUPPORTED;
}
