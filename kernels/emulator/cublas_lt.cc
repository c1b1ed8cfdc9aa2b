#include "kernels/emulator/cublas_lt.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/emulator/arena.h"
#include "kernels/emulator/gelu.h"
#include "kernels/emulator/host_state.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/observers.h"
#include "kernels/emulator/refusals.h"
#include "kernels/emulator/streams.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/dtype.h"

namespace ladder::emulator {
namespace {

// Returns whether the matrix lies in device memory, and where an algorithm may expect it.
bool is_valid(const void* data, const cublasLtMatrixLayoutOpaque& layout, uint64_t alignment) {
  if (layout.leading < layout.rows || layout.rows < 1 || layout.columns < 1) return false;
  const auto elements = static_cast<size_t>((layout.columns - 1) * layout.leading + layout.rows);
  return reinterpret_cast<uintptr_t>(data) % alignment == 0 &&
         Arena::instance().holds(data, elements * 2);
}

struct Product {
  cublasLtMatmulDescOpaque description;
  cublasLtMatrixLayoutOpaque a_layout, b_layout, d_layout;
  const void *a, *b;
  const void* c;  // what is added, which lies as d does; nullptr: nothing
  void* d;
  uint64_t alignments[4];

  int64_t m() const { return d_layout.rows; }
  int64_t n() const { return d_layout.columns; }
  int64_t k() const { return b_layout.rows; }
  bool is_transposed() const { return description.operation_a != CUBLAS_OP_N; }
  bool has(uint32_t epilogue) const { return description.epilogue == epilogue; }

  bool is_possible() const;
  template <class T>
  void compute() const;
  template <class T>
  void tell() const;
};

bool Product::is_possible() const {
  const bool fits = (is_transposed() ? a_layout.columns : a_layout.rows) == m() &&
                    (is_transposed() ? a_layout.rows : a_layout.columns) == k() &&
                    b_layout.columns == n();
  if (!fits || !is_valid(a, a_layout, alignments[0]) || !is_valid(b, b_layout, alignments[1]) ||
      !is_valid(d, d_layout, alignments[3])) {
    return false;
  }
  if (c != nullptr && !is_valid(c, d_layout, alignments[2])) return false;
  const bool has_bias = has(CUBLASLT_EPILOGUE_BIAS) || has(CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  const bool has_aux = has(CUBLASLT_EPILOGUE_DGELU) || has(CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  if (!has_bias && !has_aux && !has(CUBLASLT_EPILOGUE_DEFAULT)) return false;
  const auto& [operation, epilogue, bias, aux, leading, multiprocessors] = description;
  if (has_bias && !Arena::instance().holds(bias, 2 * static_cast<size_t>(m()))) return false;
  return !has_aux || (leading % 8 == 0 && is_valid(aux, {d_layout.type, m(), n(), leading}, 16));
}

template <class T>
void Product::compute() const {
  const auto size = [](int64_t value) { return static_cast<size_t>(value); };
  std::vector<float> product(size(m() * n()));
  // Read by rows, a column-major matrix is its own transpose: D^T = B^T op(A)^T.
  cpu::gemm(size(n()), size(m()), size(k()),
            cpu::Matrix<T>{static_cast<const T*>(b), size(b_layout.leading), false},
            cpu::Matrix<T>{static_cast<const T*>(a), size(a_layout.leading), is_transposed()},
            false, product.data(), size(m()));
  const T* const bias = static_cast<const T*>(description.bias);
  for (int64_t j = 0; j < n(); ++j) {
    T* const out = static_cast<T*>(d) + j * d_layout.leading;
    T* const aux = static_cast<T*>(description.aux) + j * description.aux_leading;
    for (int64_t i = 0; i < m(); ++i) {
      float x = product[size(j * m() + i)];
      if (c != nullptr) x += static_cast<float>(static_cast<const T*>(c)[j * d_layout.leading + i]);
      if (has(CUBLASLT_EPILOGUE_DGELU)) {
        out[i] = static_cast<T>(x * Gelu(static_cast<float>(aux[i])).derivative());
      } else if (has(CUBLASLT_EPILOGUE_GELU_AUX_BIAS)) {
        aux[i] = static_cast<T>(x + static_cast<float>(bias[i]));
        out[i] = static_cast<T>(Gelu(static_cast<float>(aux[i])).value());
      } else {
        out[i] = static_cast<T>(has(CUBLASLT_EPILOGUE_BIAS) ? x + static_cast<float>(bias[i]) : x);
      }
    }
  }
}

// Tells the observers what the product has read and written, column after column.
template <class T>
void Product::tell() const {
  tell_observers([&](Observer& observer) {
    const auto columns = [&](const void* data, const cublasLtMatrixLayoutOpaque& layout,
                             void (Observer::*function)(const void*, size_t)) {
      for (int64_t j = 0; j < layout.columns; ++j) {
        (observer.*function)(static_cast<const T*>(data) + j * layout.leading,
                             static_cast<size_t>(layout.rows) * sizeof(T));
      }
    };
    columns(a, a_layout, &Observer::read);
    columns(b, b_layout, &Observer::read);
    if (c != nullptr) columns(c, d_layout, &Observer::read);
    columns(d, d_layout, &Observer::written);
    if (description.bias != nullptr) {
      observer.read(description.bias, static_cast<size_t>(m()) * sizeof(T));
    }
    if (description.aux == nullptr) return;
    columns(description.aux, {d_layout.type, m(), n(), description.aux_leading},
            has(CUBLASLT_EPILOGUE_DGELU) ? &Observer::read : &Observer::written);
  });
}

// Gives the product to the stream.
template <class T>
void give_product(const Product& p, cudaStream_t stream) {
  give(stream, [p] {
    check(p.is_possible(), "cublasLtMatmul: its memory was freed before its stream came to it");
    tell_observers([&](Observer& observer) {
      observer.work_is("a product of cuBLAS");
      observer.product(p.description.multiprocessors);
    });
    if (launches_are_sampled()) return;
    const DeviceAccess access;
    p.compute<T>();
    p.tell<T>();
  });
}

}  // namespace
}  // namespace ladder::emulator

using namespace ladder::emulator;

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* returned) {
  if (handle == nullptr || description == nullptr || a == nullptr || b == nullptr || c == nullptr ||
      d == nullptr || preference == nullptr || requested < 1 || results == nullptr ||
      returned == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *returned = 0;
  if (const auto status = refused("cublasLtMatmulAlgoGetHeuristic")) {
    return static_cast<cublasStatus_t>(*status);
  }
  ladder::check(
      (preference->reduction_schemes & ~CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == 0,
      "cublasLtMatmulAlgoGetHeuristic: the preference lets a GPU add the parts of a split sum in "
      "16 bits");
  *results = {};
  std::ranges::copy(preference->alignments, results->algo.data);
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr || description == nullptr || a_layout == nullptr || b_layout == nullptr ||
      d_layout == nullptr || algo == nullptr || alpha == nullptr || beta == nullptr ||
      !is_stream(stream) || *static_cast<const float*>(alpha) != 1 || c_layout != d_layout ||
      !Arena::instance().holds(workspace, workspace_bytes)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const float factor_of_c = *static_cast<const float*>(beta);
  if (factor_of_c != 0 && factor_of_c != 1) return CUBLAS_STATUS_INVALID_VALUE;
  const void* const added = factor_of_c == 0 ? nullptr : c;
  Product p = {*description, *a_layout, *b_layout, *d_layout, a, b, added, d, {}};
  std::copy_n(algo->data, 4, p.alignments);
  if (!p.is_possible()) return CUBLAS_STATUS_INVALID_VALUE;
  const cudaDataType_t type = d_layout->type;
  if (a_layout->type != type || b_layout->type != type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (type == CUDA_R_16BF) return give_product<ladder::bfloat16>(p, stream), CUBLAS_STATUS_SUCCESS;
  if (type == CUDA_R_16F) return give_product<ladder::float16>(p, stream), CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_NOT_SUPPORTED;
}
