// The GELU of the emulated cuBLASLt.
#pragma once

#include <cmath>

namespace ladder::emulator {

// GELU by tanh, and its derivative, as kernels/gelu.h writes them.
struct Gelu {
  explicit Gelu(float x) : x_(x), gate_(1 / (1 + std::exp(-kScale * (x + kCube * x * x * x)))) {}
  float value() const { return x_ * gate_; }
  float derivative() const {
    const float slope = kScale * (1 + 3 * kCube * x_ * x_);
    return gate_ + x_ * gate_ * (1 - gate_) * slope;
  }

 private:
  static constexpr float kScale = 1.5957691F, kCube = 0.044715F;
  float x_, gate_;
};

}  // namespace ladder::emulator
