// Tables and charts of measurements.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "common/io/log_chart.h"
#include "lessons/00_collectives/measure.h"

namespace ladder {
namespace {

// Groups the measurements by way. Those of one way follow each other.
std::vector<std::vector<Measurement>> by_way(const std::vector<Measurement>& measurements) {
  std::vector<std::vector<Measurement>> groups;
  for (const Measurement& m : measurements) {
    if (groups.empty() || groups.back()[0].way != m.way) groups.emplace_back();
    groups.back().push_back(m);
  }
  return groups;
}

LinearCost fit(const std::vector<Measurement>& measurements) {
  std::vector<CostSample> samples;
  for (const Measurement& m : measurements) samples.push_back({m.bytes, m.seconds});
  return fit_linear_cost(samples);
}

double largest_relative_error(const LinearCost& cost, const std::vector<Measurement>& samples) {
  double largest = 0;
  for (const Measurement& m : samples) {
    largest = std::max(largest, std::abs(cost.seconds(m.bytes) / m.seconds - 1));
  }
  return largest;
}

}  // namespace

std::string table_of(Collective collective, size_t num_ranks,
                     const std::vector<Measurement>& measurements) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2);
  const auto cell = [&](int width) -> std::ostream& { return text << std::setw(width); };
  text << "algorithm       bytes     time us    alg GB/s    bus GB/s  errors\n";
  bool is_timed = !measurements.empty();
  for (const Measurement& m : measurements) {
    text << std::left << std::setw(9) << name_of(m.way) << std::right;
    cell(12) << m.bytes;
    if (m.seconds > 0) {
      cell(12) << 1e6 * m.seconds;
      cell(12) << 1e-9 * static_cast<double>(m.bytes) / m.seconds;
      cell(12) << 1e-9 * wire_bytes(collective, num_ranks, m.bytes) / m.seconds;
    } else {
      is_timed = false;
      for (int i = 0; i < 3; ++i) cell(12) << "-";
    }
    cell(8) << m.errors << "\n";
  }
  if (!is_timed) return text.str();
  text << "fitted: time = alpha + bytes / bandwidth\n";
  text << "algorithm    alpha us        GB/s  largest error\n";
  for (const std::vector<Measurement>& group : by_way(measurements)) {
    const LinearCost cost = fit(group);
    text << std::left << std::setw(9) << name_of(group[0].way) << std::right;
    cell(12) << 1e6 * cost.alpha;
    cell(12) << (cost.beta > 0 ? 1e-9 / cost.beta : 0);
    cell(13) << std::setprecision(0) << 100 * largest_relative_error(cost, group) << " %\n"
             << std::setprecision(2);
  }
  return text.str();
}

std::string chart_of(Collective collective, size_t num_ranks,
                     const std::vector<Measurement>& measurements) {
  constexpr Colour kColours[] = {Colour::gradients, Colour::parameters, Colour::optimizer,
                                 Colour::activations};
  std::vector<ChartSeries> series;
  std::vector<Plan> plans;
  for (const std::vector<Measurement>& group : by_way(measurements)) {
    const Way way = group[0].way;
    // Equal plans are one series with both names: one would hide the other.
    const Plan plan = way ? make_plan(*way, collective, num_ranks, num_ranks) : Plan();
    const auto same = std::ranges::find(plans, plan);
    if (same != plans.end()) {
      series[static_cast<size_t>(same - plans.begin())].name += " = " + name_of(way);
      continue;
    }
    plans.push_back(plan);
    const LinearCost cost = fit(group);
    ChartSeries one = {
        name_of(way), way ? kColours[static_cast<size_t>(*way)] : Colour::communication, {}, {}};
    for (const Measurement& m : group) {
      one.points.push_back({static_cast<double>(m.bytes), 1e6 * m.seconds});
    }
    const double first = std::log(one.points.front().x), last = std::log(one.points.back().x);
    constexpr int kPoints = 60;
    for (int i = 0; i <= kPoints; ++i) {
      const double bytes = std::exp(first + (last - first) * i / kPoints);
      one.curve.push_back({bytes, 1e6 * (cost.alpha + cost.beta * bytes)});
    }
    series.push_back(std::move(one));
  }
  return log_chart(concat(name_of(collective), " on ", counted(num_ranks, "rank"),
                          ": measured (squares) and fitted (lines)"),
                   "bytes of the vector", "microseconds", series);
}

}  // namespace ladder
