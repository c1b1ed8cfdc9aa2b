// The arguments of kernels that are measured by themselves.
#pragma once

#include <map>

#include "kernels/runtime/stream.h"

namespace ladder {

// In a training step an argument is found in a cache or it is not. Activations and their gradients
// were written by the kernel before: they are *warm*. Weights, moments, and activations that wait
// for backward are *cold*: since they were used last, the step has moved all its other data. So a
// warm argument has the same place in each call, and a cold one another place, until a pool of as
// much memory as a step moves is used up.
//
// Arguments that are only read have memory of their own, since results of many calls would become
// too large or too small for numbers of usual speed.
class Buffers {
 public:
  // Begins to count what a call of a kernel needs. Until prepare() arguments have addresses, but no
  // memory.
  void count();
  // Gets memory for what was counted. Pools of cold arguments have at least `cold_bytes` and room
  // for two calls. What is read and written is a small positive number at first.
  void prepare(Stream& stream, size_t cold_bytes);
  // Begins a call.
  void next();

  // Return arguments of the call: one that is read, and one that is written or both.
  ConstTensorView cold_in(const Shape& shape, DType dtype) {
    return at(false, false, dtype, shape);
  }
  TensorView cold_out(const Shape& shape, DType dtype) { return at(false, true, dtype, shape); }
  ConstTensorView warm_in(const Shape& shape, DType dtype) { return at(true, false, dtype, shape); }
  TensorView warm_out(const Shape& shape, DType dtype) { return at(true, true, dtype, shape); }
  // Returns tokens below kNumTokens, as bytes of a text are.
  static constexpr size_t kNumTokens = 128;
  ConstTensorView tokens(const Shape& shape);

 private:
  struct Key {
    bool warm, written;
    DType dtype;
    auto operator<=>(const Key&) const = default;
  };
  struct Pool {
    Tensor memory;
    size_t needed = 0;  // bytes of a call
    size_t used = 0;    // bytes
  };

  TensorView at(bool warm, bool written, DType dtype, const Shape& shape);

  Memory memory_{DeviceType::cpu, "calibration", 0};
  bool counts_ = false;
  std::map<Key, Pool> pools_;
  Pool tokens_;
};

}  // namespace ladder
