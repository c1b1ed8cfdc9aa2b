// SwiGLU as plain loops over double: the formula, and nothing else. Read it before kernels/swiglu.h
// and kernels/cpu/swiglu.cc, which compute the same in vectors. Tests compare the kernels of every
// device with it.
//
// There are R rows. One of `in` has F columns `gate`, then F columns `up`.
#pragma once

#include <span>
#include <vector>

namespace ladder::cpu {

// out (R, F) = silu(gate) * up, with silu(x) = x / (1 + exp(-x)). [Shazeer20]
std::vector<double> plain_swiglu_forward(std::span<const double> in, size_t columns);

// Returns the gradient (R, 2 F) with respect to in, given dout, the gradient with respect to out.
std::vector<double> plain_swiglu_backward(std::span<const double> dout, std::span<const double> in,
                                          size_t columns);

}  // namespace ladder::cpu
