#include "kernels/fused_matmul.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "kernels/cuda/cublas_handle.h"
#include "kernels/gelu.h"
#include "kernels/matmul.h"
#include "kernels/residual.h"

namespace ladder::cuda {
namespace {

// The alignment that cuBLASLt may count on; it makes no use of more.
constexpr uint32_t kAlignment = 16;

template <class T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, T value) {
  cublas_check(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         T value) {
  cublas_check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
}

// out (M, N) = a (M, K) op(b), with an epilogue. Like cuBLAS, cuBLASLt expects matrices column by
// column, so it computes out^T = op(b)^T a^T; matmul.cu says more.
struct FusedProduct {
  TensorView out;
  ConstTensorView a, b;
  bool transpose_b;
  cublasLtEpilogue_t epilogue;
  ConstTensorView bias = {};    // (N)
  ConstTensorView aux = {};     // (M, N): what GELU was given, which its forward writes
  ConstTensorView addend = {};  // (M, N): added to the product; empty: nothing is

  size_t m() const { return out.shape()[0]; }
  size_t n() const { return out.shape()[1]; }
  size_t k() const { return a.shape()[1]; }

  bool can_be_fused() const {
    const auto is_aligned = [](const ConstTensorView& view) {
      return view.empty() || reinterpret_cast<uintptr_t>(view.data()) % kAlignment == 0;
    };
    const bool has_16_bits = out.dtype() == DType::bf16 || out.dtype() == DType::fp16;
    return has_16_bits && m() % 8 == 0 && n() % 8 == 0 && k() % 8 == 0 && m() * n() * k() > 0 &&
           rows_are_aligned(out) && rows_are_aligned(a) && rows_are_aligned(b) &&
           is_aligned(bias) && is_aligned(aux) && is_aligned(addend);
  }
  // Computes the product and returns true, or returns false if it cannot be fused or cuBLASLt has
  // no algorithm for it.
  bool compute(Stream& stream) const;
};

// A product's description, the layouts of its matrices, and the algorithm that cuBLASLt likes best,
// if it has any.
class Plan {
 public:
  Plan(cublasLtHandle_t handle, const FusedProduct& p) {
    const cudaDataType_t type = cuda_type(p.out.dtype());
    cublas_check(cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                 "cublasLtMatmulDescCreate");
    const int32_t operation = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(description_, CUBLASLT_MATMUL_DESC_TRANSA, operation);
    if (const int32_t count = Cublas::multiprocessors; count > 0) {
      set(description_, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, count);
    }
    set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(p.epilogue));
    if (!p.aux.empty()) {
      set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<int64_t>(p.n()));
    }
    set_pointers(p);
    const size_t rows = p.transpose_b ? p.k() : p.n(), columns = p.transpose_b ? p.n() : p.k();
    make(b_, type, rows, columns, p.b);
    make(a_, type, p.k(), p.m(), p.a);
    make(out_, type, p.n(), p.m(), p.out);
    choose_algorithm(handle);
  }
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {a_, b_, out_}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(description_);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  bool has_algorithm() const { return algorithm_.has_value(); }
  // REQUIRES: has_algorithm().
  void run(const Cublas& cublas, cublasLtHandle_t handle, const FusedProduct& p,
           cudaStream_t stream) {
    set_pointers(p);
    const float one = 1, beta = p.addend.empty() ? 0 : 1;
    const void* const addend = p.addend.empty() ? p.out.data() : p.addend.data();
    const ObservedProduct observed(stream, "cuBLASLt", p.m(), p.n(), p.k());
    cublas_check(cublasLtMatmul(handle, description_, &one, p.b.data(), b_, p.a.data(), a_, &beta,
                                addend, out_, p.out.data(), out_, &*algorithm_, cublas.workspace(),
                                Cublas::kWorkspaceBytes, stream),
                 "cublasLtMatmul");
  }

 private:
  void set_pointers(const FusedProduct& p) {
    if (!p.bias.empty()) set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data());
    if (!p.aux.empty()) set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux.data());
  }
  static void make(cublasLtMatrixLayout_t& layout, cudaDataType_t type, size_t rows, size_t columns,
                   const ConstTensorView& matrix) {
    cublas_check(cublasLtMatrixLayoutCreate(&layout, type, rows, columns,
                                            static_cast<int64_t>(matrix.pitch())),
                 "cublasLtMatrixLayoutCreate");
  }
  void choose_algorithm(cublasLtHandle_t handle) {
    cublasLtMatmulPreference_t preference = nullptr;
    cublas_check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, Cublas::kWorkspaceBytes);
    // If a sum is split, its parts are added in fp32, and not in the 16 bits of the output.
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(preference, attribute, kAlignment);
    }
    cublasLtMatmulHeuristicResult_t best = {};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, description_, b_, a_, out_, out_, preference, 1, &best, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return;
    cublas_check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (found > 0) algorithm_ = best.algo;
  }

  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, out_ = nullptr;
  std::optional<cublasLtMatmulAlgo_t> algorithm_;
};

// Choosing an algorithm takes longer than a launch, so the plans are kept. What cuBLASLt may know
// of the bias and of the matrix beside the product is their alignment: it is part of the key. (A
// product with an addend needs no key of its own: what is added does not choose the algorithm.)
bool FusedProduct::compute(Stream& stream) const {
  if (!can_be_fused()) return false;
  using Key = std::array<uint64_t, 11>;
  thread_local std::map<Key, Plan> plans;
  Cublas& cublas = Cublas::of(stream);
  const auto handle = reinterpret_cast<cublasLtHandle_t>(cublas.handle());  // as cuBLAS allows
  const auto offset = [](const ConstTensorView& view) {
    return view.empty() ? 0 : reinterpret_cast<uintptr_t>(view.data()) % 256;
  };
  const Key key = {static_cast<uint64_t>(selected_device(stream.device())),
                   static_cast<uint64_t>(out.dtype()) << 32 | static_cast<uint64_t>(epilogue),
                   transpose_b,
                   m(),
                   n(),
                   k(),
                   out.pitch(),
                   a.pitch(),
                   b.pitch(),
                   offset(bias) << 32 | offset(aux),
                   static_cast<uint64_t>(Cublas::multiprocessors)};
  Plan& plan = plans.try_emplace(key, handle, *this).first->second;
  if (plan.has_algorithm()) plan.run(cublas, handle, *this, stream.native());
  return plan.has_algorithm();
}

}  // namespace

void matmul_bias(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
                 ConstTensorView bias, bool transpose_b) {
  const FusedProduct product = {out, a, b, transpose_b, CUBLASLT_EPILOGUE_BIAS, bias};
  if (product.compute(stream)) return;
  cuda::matmul(stream, out, a, b, {.transpose_b = transpose_b});
  cuda::add_bias(stream, out, bias);
}

void matmul_bias_gelu(Stream& stream, TensorView out, TensorView before, ConstTensorView a,
                      ConstTensorView b, ConstTensorView bias) {
  const FusedProduct product = {out, a, b, false, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, bias, before};
  if (product.compute(stream)) return;
  cuda::matmul_bias(stream, before, a, b, bias, false);
  cuda::gelu_forward(stream, out, before);
}

void matmul_residual(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
                     ConstTensorView bias, ConstTensorView residual, bool transpose_b) {
  const auto epilogue = bias.empty() ? CUBLASLT_EPILOGUE_DEFAULT : CUBLASLT_EPILOGUE_BIAS;
  const FusedProduct product = {out, a, b, transpose_b, epilogue, bias, {}, residual};
  if (product.compute(stream)) return;
  cuda::matmul(stream, out, a, b, {.transpose_b = transpose_b});
  cuda::add_residual(stream, out, residual, out, bias);
}

void matmul_gelu_backward(Stream& stream, TensorView din, ConstTensorView dout, ConstTensorView b,
                          ConstTensorView before) {
  const FusedProduct product = {din, dout, b, true, CUBLASLT_EPILOGUE_DGELU, {}, before};
  if (product.compute(stream)) return;
  cuda::matmul(stream, din, dout, b, {.transpose_b = true});
  cuda::gelu_backward(stream, din, din, before);
}

}  // namespace ladder::cuda
