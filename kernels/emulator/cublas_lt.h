// What cuBLASLt's descriptions hold in the emulator.
#pragma once

#include <cublasLt.h>

#include <cstdint>

struct cublasLtMatmulDescOpaque {
  int32_t operation_a = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* aux = nullptr;
  int64_t aux_leading = 0;
  int32_t multiprocessors = 0;
};

struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type;
  int64_t rows, columns, leading;
};

struct cublasLtMatmulPreferenceOpaque {
  uint64_t alignments[4] = {256, 256, 256, 256};  // of A, B, C, D
  uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
};
