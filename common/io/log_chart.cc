#include "common/io/log_chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr double kLeft = 70, kTop = 70, kWidth = 620, kHeight = 400, kSquare = 7;

// Whole powers of ten around the values that it has seen.
class Axis10 {
 public:
  void see(double value) {
    check(value > 0, "log_chart: a value is not positive");
    first_ = std::min(first_, static_cast<int>(std::floor(std::log10(value))));
    last_ = std::max(last_, static_cast<int>(std::ceil(std::log10(value))));
  }
  bool empty() const { return first_ > last_; }
  int first() const { return first_; }
  int last() const { return std::max(last_, first_ + 1); }
  // 0 at the begin of the axis, 1 at its end.
  double position(double value) const { return (std::log10(value) - first_) / (last() - first_); }

 private:
  int first_ = std::numeric_limits<int>::max(), last_ = std::numeric_limits<int>::min();
};

// "0.1", "10", "100 k", "1 M" of a power of ten.
std::string power_text(int power) {
  if (power < 3) return concat(std::pow(10, power));
  constexpr std::string_view kThousands[] = {" k", " M", " G", " T"};
  const auto steps = std::min<size_t>(static_cast<size_t>(power) / 3, std::size(kThousands));
  return concat(std::pow(10, power - 3 * static_cast<int>(steps)), kThousands[steps - 1]);
}

}  // namespace

std::string log_chart(const std::string& title, const std::string& x_name,
                      const std::string& y_name, const std::vector<ChartSeries>& series) {
  Axis10 x_axis, y_axis;
  for (const ChartSeries& s : series) {
    for (const ChartPoint& p : s.points) x_axis.see(p.x), y_axis.see(p.y);
    for (const ChartPoint& p : s.curve) x_axis.see(p.x), y_axis.see(p.y);
  }
  check(!x_axis.empty(), "log_chart: there is no point");
  const auto x_of = [&](double value) { return kLeft + kWidth * x_axis.position(value); };
  const auto y_of = [&](double value) { return kTop + kHeight * (1 - y_axis.position(value)); };
  const double bottom = kTop + kHeight;
  Svg svg(kLeft + kWidth + 30, bottom + 54);
  svg.title(title);
  svg.line(kLeft, kTop, kLeft, bottom);
  svg.line(kLeft, bottom, kLeft + kWidth, bottom);
  for (int power = x_axis.first(); power <= x_axis.last(); ++power) {
    const double x = x_of(std::pow(10, power));
    svg.line(x, bottom, x, bottom + 5);
    svg.text(x, bottom + 20, power_text(power), {.anchor = Svg::Anchor::middle});
  }
  for (int power = y_axis.first(); power <= y_axis.last(); ++power) {
    const double y = y_of(std::pow(10, power));
    svg.line(kLeft - 5, y, kLeft, y);
    svg.text(kLeft - 8, y + 4, power_text(power), {.anchor = Svg::Anchor::end});
  }
  svg.text(kLeft + kWidth / 2, bottom + 42, x_name, {.anchor = Svg::Anchor::middle});
  svg.text(10, kTop - 12, y_name);
  double legend = kLeft + 60;
  for (const ChartSeries& s : series) {
    std::vector<std::pair<double, double>> curve;
    for (const ChartPoint& p : s.curve) curve.emplace_back(x_of(p.x), y_of(p.y));
    if (!curve.empty()) svg.curve(s.colour, curve);
    for (const ChartPoint& p : s.points) {
      svg.rect(s.colour, x_of(p.x) - kSquare / 2, y_of(p.y) - kSquare / 2, kSquare, kSquare,
               concat(s.name, ": ", p.x, ", ", p.y));
    }
    legend = svg.legend(legend, 36, s.colour, s.name);
  }
  return svg.str();
}

}  // namespace ladder
