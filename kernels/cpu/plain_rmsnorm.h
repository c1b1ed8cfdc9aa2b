// RMSNorm as plain loops over double: the formula, and nothing else. Read it before
// kernels/rmsnorm.h and kernels/cpu/rmsnorm.cc, which compute the same with vectors and threads.
// Tests compare the kernels of every device with it.
//
// There are R rows of C elements, row after row. C is the length of weight, and R follows.
#pragma once

#include <span>
#include <vector>

namespace ladder::cpu {

struct PlainRmsnorm {
  std::vector<double> out;   // (R, C)
  std::vector<double> rstd;  // (R): of each row, 1 / rstd is its root mean square
};

struct PlainRmsnormGradients {
  std::vector<double> din;      // (R, C)
  std::vector<double> dweight;  // (C)
};

// out = in * rstd * weight, with rstd = 1 / sqrt(mean of in^2 + epsilon). [Zhang19]
PlainRmsnorm plain_rmsnorm_forward(std::span<const double> in, std::span<const double> weight,
                                   double epsilon);

// Returns the gradients with respect to in and weight, given dout, the gradient with respect to
// out, and the statistics of forward.
PlainRmsnormGradients plain_rmsnorm_backward(std::span<const double> dout,
                                             std::span<const double> in,
                                             std::span<const double> weight,
                                             std::span<const double> rstd);

}  // namespace ladder::cpu
