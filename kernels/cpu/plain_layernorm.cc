#include "kernels/cpu/plain_layernorm.h"

#include <cmath>

namespace ladder::cpu {

PlainLayernorm plain_layernorm_forward(std::span<const double> in, std::span<const double> weight,
                                       std::span<const double> bias, double epsilon) {
  const size_t columns = weight.size(), rows = in.size() / columns;
  const double count = static_cast<double>(columns);
  PlainLayernorm result;
  for (size_t r = 0; r < rows; ++r) {
    const std::span<const double> x = in.subspan(r * columns, columns);
    double mean = 0, variance = 0;
    for (size_t c = 0; c < columns; ++c) mean += x[c] / count;
    for (size_t c = 0; c < columns; ++c) variance += (x[c] - mean) * (x[c] - mean) / count;
    const double rstd = 1 / std::sqrt(variance + epsilon);
    // Every row gets mean 0 and variance 1; then each column gets its scale and its shift.
    for (size_t c = 0; c < columns; ++c) {
      result.out.push_back((x[c] - mean) * rstd * weight[c] + bias[c]);
    }
    result.mean.push_back(mean);
    result.rstd.push_back(rstd);
  }
  return result;
}

PlainLayernormGradients plain_layernorm_backward(std::span<const double> dout,
                                                 std::span<const double> in,
                                                 std::span<const double> weight,
                                                 std::span<const double> mean,
                                                 std::span<const double> rstd) {
  const size_t columns = weight.size(), rows = in.size() / columns;
  const double count = static_cast<double>(columns);
  PlainLayernormGradients result = {{}, std::vector<double>(columns), std::vector<double>(columns)};
  for (size_t r = 0; r < rows; ++r) {
    const auto normalized = [&](size_t c) { return (in[r * columns + c] - mean[r]) * rstd[r]; };
    // The gradient with respect to the normalized element.
    const auto g = [&](size_t c) { return dout[r * columns + c] * weight[c]; };
    double mean_g = 0, mean_gn = 0;
    for (size_t c = 0; c < columns; ++c) {
      mean_g += g(c) / count;
      mean_gn += g(c) * normalized(c) / count;
    }
    for (size_t c = 0; c < columns; ++c) {
      // Adding a constant to a row, or scaling it, does not change the output. So what lies along
      // the constant row (the mean) or along the normalized row is taken off the gradient.
      result.din.push_back(rstd[r] * (g(c) - mean_g - normalized(c) * mean_gn));
      result.dweight[c] += dout[r * columns + c] * normalized(c);
      result.dbias[c] += dout[r * columns + c];
    }
  }
  return result;
}

}  // namespace ladder::cpu
