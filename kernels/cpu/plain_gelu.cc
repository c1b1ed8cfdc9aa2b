#include "kernels/cpu/plain_gelu.h"

#include <cmath>
#include <numbers>

namespace ladder::cpu {
namespace {

const double kScale = std::sqrt(2 / std::numbers::pi);
constexpr double kCubic = 0.044715;

double tanh_of(double x) { return std::tanh(kScale * (x + kCubic * x * x * x)); }

}  // namespace

std::vector<double> plain_gelu_forward(std::span<const double> in) {
  std::vector<double> out;
  for (double x : in) out.push_back(x / 2 * (1 + tanh_of(x)));
  return out;
}

std::vector<double> plain_gelu_backward(std::span<const double> dout, std::span<const double> in) {
  std::vector<double> din;
  for (size_t i = 0; i < in.size(); ++i) {
    const double x = in[i], t = tanh_of(x);
    // The product rule, and tanh' = 1 - tanh^2 times the derivative of what tanh is taken of.
    const double inner = kScale * (1 + 3 * kCubic * x * x);
    din.push_back(dout[i] * ((1 + t) / 2 + x / 2 * (1 - t * t) * inner));
  }
  return din;
}

}  // namespace ladder::cpu
