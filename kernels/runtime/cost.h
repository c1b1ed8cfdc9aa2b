// What a call of a kernel computes and moves.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>

#include "kernels/runtime/tensor.h"

namespace ladder {

// It depends on shapes and dtypes, not on the device.
struct Cost {
  double product_flops = 0;  // multiplications and additions of matrix products
  double other_flops = 0;    // all other operations; a function such as exp counts as one
  double bytes_read = 0, bytes_written = 0;  // the bytes of the arguments, each counted once
  // The extents of the one matrix product (M, K) (K, N) that a call consists of, else 0: how fast a
  // device multiplies depends on them.
  size_t m = 0, n = 0, k = 0;
  bool transpose_b = false;  // whether that product's second factor is stored as (N, K)

  double bytes() const { return bytes_read + bytes_written; }
  // Adds what another call computes and moves. Both together are no single product.
  Cost& operator+=(const Cost& other) {
    product_flops += other.product_flops;
    other_flops += other.other_flops;
    bytes_read += other.bytes_read;
    bytes_written += other.bytes_written;
    m = n = k = 0;
    transpose_b = false;
    return *this;
  }
};

// Returns the cost of reading and writing these views once, with `flops` operations.
inline Cost moving_cost(double flops, std::initializer_list<ConstTensorView> read,
                        std::initializer_list<ConstTensorView> written) {
  Cost cost = {.other_flops = flops};
  for (const ConstTensorView& view : read) cost.bytes_read += static_cast<double>(view.num_bytes());
  for (const ConstTensorView& view : written) {
    cost.bytes_written += static_cast<double>(view.num_bytes());
  }
  return cost;
}

inline double number_of(size_t count) { return static_cast<double>(count); }

// A call of a kernel, as a simulation sees it.
struct KernelCall {
  const char* name;  // "matmul"; it lives as long as the program
  DType dtype;       // of the leading argument
  Cost cost;
  // The tensors among its arguments, in their order. Other arguments stand there as empty views.
  std::span<const ConstTensorView> arguments = {};
  // Computes it in this thread, on the CPU, if the arguments have memory there. Empty: it cannot.
  // It and `arguments` may be used until Simulation::launch() returns.
  std::function<void()> compute = {};
};

}  // namespace ladder
