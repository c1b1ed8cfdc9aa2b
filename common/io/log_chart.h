// Charts of measurements whose both axes are logarithmic, as SVG.
#pragma once

#include <string>
#include <vector>

#include "common/io/svg.h"

namespace ladder {

struct ChartPoint {
  double x = 0, y = 0;
};

// One colour of the chart.
struct ChartSeries {
  std::string name;
  Colour colour;
  std::vector<ChartPoint> points;  // drawn as squares
  std::vector<ChartPoint> curve;   // drawn as a line from each point to the next
};

// The axes go from the smallest to the largest values of all series, in whole powers of ten.
// REQUIRES: a point or more; all values are positive.
std::string log_chart(const std::string& title, const std::string& x_name,
                      const std::string& y_name, const std::vector<ChartSeries>& series);

}  // namespace ladder
