// Layer normalization as plain loops over double: the formula, and nothing else. Read it before
// kernels/layernorm.h and kernels/cpu/layernorm.cc, which compute the same with vectors and
// threads. Tests compare the kernels of every device with it.
//
// There are R rows of C elements, row after row. C is the length of weight, and R follows.
#pragma once

#include <span>
#include <vector>

namespace ladder::cpu {

struct PlainLayernorm {
  std::vector<double> out;         // (R, C)
  std::vector<double> mean, rstd;  // (R): of each row, 1 / rstd is its standard deviation
};

struct PlainLayernormGradients {
  std::vector<double> din;             // (R, C)
  std::vector<double> dweight, dbias;  // (C)
};

// out = (in - mean) * rstd * weight + bias, with rstd = 1 / sqrt(variance + epsilon). [Ba16]
PlainLayernorm plain_layernorm_forward(std::span<const double> in, std::span<const double> weight,
                                       std::span<const double> bias, double epsilon);

// Returns the gradients with respect to in, weight and bias, given dout, the gradient with respect
// to out, and the statistics of forward.
PlainLayernormGradients plain_layernorm_backward(std::span<const double> dout,
                                                 std::span<const double> in,
                                                 std::span<const double> weight,
                                                 std::span<const double> mean,
                                                 std::span<const double> rstd);

}  // namespace ladder::cpu
