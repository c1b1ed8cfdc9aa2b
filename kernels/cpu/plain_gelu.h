// GELU as plain loops over double: the formula, and nothing else. Read it before kernels/gelu.h and
// kernels/cpu/gelu.cc, which compute the same with one exponential of a vector. Tests compare the
// kernels of every device with it.
#pragma once

#include <span>
#include <vector>

namespace ladder::cpu {

// out = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) of every element x. [Hendrycks16]
std::vector<double> plain_gelu_forward(std::span<const double> in);

// Returns the gradient with respect to in, given dout, the gradient with respect to out.
std::vector<double> plain_gelu_backward(std::span<const double> dout, std::span<const double> in);

}  // namespace ladder::cpu
