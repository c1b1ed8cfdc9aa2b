#include "kernels/cpu/plain_swiglu.h"

#include <cmath>

namespace ladder::cpu {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

std::vector<double> plain_swiglu_forward(std::span<const double> in, size_t columns) {
  std::vector<double> out;
  for (size_t row = 0; row < in.size(); row += 2 * columns) {
    for (size_t c = 0; c < columns; ++c) {
      const double gate = in[row + c], up = in[row + columns + c];
      out.push_back(gate * sigmoid(gate) * up);
    }
  }
  return out;
}

std::vector<double> plain_swiglu_backward(std::span<const double> dout, std::span<const double> in,
                                          size_t columns) {
  std::vector<double> din(in.size());
  for (size_t r = 0; r < dout.size() / columns; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      const size_t at_gate = 2 * r * columns + c, at_up = at_gate + columns;
      const double gate = in[at_gate], d = dout[r * columns + c], s = sigmoid(gate);
      // The product rule, and sigmoid' = sigmoid * (1 - sigmoid).
      din[at_gate] = d * in[at_up] * (s + gate * s * (1 - s));
      din[at_up] = d * gate * s;
    }
  }
  return din;
}

}  // namespace ladder::cpu
