#include "common/comm/cost_model.h"

#include "kernels/runtime/check.h"

namespace ladder {

LinearCost fit_linear_cost(const std::vector<CostSample>& samples) {
  // With x = 1 / t and y = n / t of each sample, minimize the sum of (alpha x + beta y - 1)^2. The
  // derivatives by alpha and beta are zero where
  //   alpha sum x x + beta sum x y = sum x
  //   alpha sum x y + beta sum y y = sum y
  double xx = 0, xy = 0, yy = 0, x_sum = 0, y_sum = 0;
  for (const auto& [bytes, seconds] : samples) {
    check(seconds > 0, "fit_linear_cost: a sample took no time");
    const double x = 1 / seconds, y = static_cast<double>(bytes) / seconds;
    xx += x * x;
    xy += x * y;
    yy += y * y;
    x_sum += x;
    y_sum += y;
  }
  const double determinant = xx * yy - xy * xy;
  check(samples.size() >= 2 && determinant > 0, "fit_linear_cost: samples of one size only");
  const LinearCost cost = {(x_sum * yy - y_sum * xy) / determinant,
                           (y_sum * xx - x_sum * xy) / determinant};
  if (cost.alpha < 0) return {0, y_sum / yy};
  if (cost.beta < 0) return {x_sum / xx, 0};
  return cost;
}

}  // namespace ladder
