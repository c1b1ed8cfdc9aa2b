#include "kernels/cpu/plain_rmsnorm.h"

#include <cmath>

namespace ladder::cpu {

PlainRmsnorm plain_rmsnorm_forward(std::span<const double> in, std::span<const double> weight,
                                   double epsilon) {
  const size_t columns = weight.size(), rows = in.size() / columns;
  PlainRmsnorm result;
  for (size_t r = 0; r < rows; ++r) {
    const std::span<const double> x = in.subspan(r * columns, columns);
    double mean_square = 0;
    for (size_t c = 0; c < columns; ++c) mean_square += x[c] * x[c] / static_cast<double>(columns);
    const double rstd = 1 / std::sqrt(mean_square + epsilon);
    // Every row gets a mean square of 1, or less where epsilon counts; then each column its scale.
    for (size_t c = 0; c < columns; ++c) result.out.push_back(x[c] * rstd * weight[c]);
    result.rstd.push_back(rstd);
  }
  return result;
}

PlainRmsnormGradients plain_rmsnorm_backward(std::span<const double> dout,
                                             std::span<const double> in,
                                             std::span<const double> weight,
                                             std::span<const double> rstd) {
  const size_t columns = weight.size(), rows = in.size() / columns;
  PlainRmsnormGradients result = {{}, std::vector<double>(columns)};
  for (size_t r = 0; r < rows; ++r) {
    const auto normalized = [&](size_t c) { return in[r * columns + c] * rstd[r]; };
    // The gradient with respect to the normalized element.
    const auto g = [&](size_t c) { return dout[r * columns + c] * weight[c]; };
    double mean_gn = 0;
    for (size_t c = 0; c < columns; ++c) {
      mean_gn += g(c) * normalized(c) / static_cast<double>(columns);
    }
    for (size_t c = 0; c < columns; ++c) {
      // A row that is scaled has the same output. So what lies along the row is taken off the
      // gradient.
      result.din.push_back(rstd[r] * (g(c) - normalized(c) * mean_gn));
      result.dweight[c] += dout[r * columns + c] * normalized(c);
    }
  }
  return result;
}

}  // namespace ladder::cpu
