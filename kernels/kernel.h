// How every kernel is made, in three files:
//   kernels/NAME.h        the contract: formula, shapes, who owns what; below it the checked entry,
//                         which is what callers call, and the cost
//   kernels/cpu/NAME.cc   the body for the CPU
//   kernels/cuda/NAME.cu  the body for GPUs, which the emulator runs on the CPU, too
// Bodies have the entry's name and signature in the namespaces cpu and cuda, and arguments that
// have been checked.
#pragma once

#include <type_traits>

#include "kernels/runtime/arguments.h"

namespace ladder {

// What a kernel computes and moves, whatever the device: a function of shapes and dtypes alone.
struct Cost {
  double product_flops = 0;  // multiplications and additions of matrix products
  double other_flops = 0;    // all other operations; a function such as exp counts as one
  double bytes_read = 0, bytes_written = 0;  // of the arguments, each once

  double bytes() const { return bytes_read + bytes_written; }
  Cost& operator+=(const Cost& other) {
    product_flops += other.product_flops;
    other_flops += other.other_flops;
    bytes_read += other.bytes_read;
    bytes_written += other.bytes_written;
    return *this;
  }
};

// Reads these views once and writes those once, with `flops` operations.
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

// Calls the body for the stream's device. The one place that tells devices apart.
template <class... Arguments>
void run_body(void (*cpu)(Stream&, Arguments...), void (*cuda)(Stream&, Arguments...),
              Stream& stream, std::type_identity_t<Arguments>... arguments) {
  (stream.device() == DeviceType::cpu ? cpu : cuda)(stream, arguments...);
}

}  // namespace ladder
