#include "common/cluster/kernel_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>

namespace ladder {
namespace {

// A tile of a product's result that one multiprocessor computes, and the part of the rate of large
// tiles that it reaches. Smaller tiles read their factors more often for each multiplication.
// [NVIDIA, Matrix Multiplication Background User's Guide, on tiles and on waves of them; the parts
// are estimates.]
struct Tile {
  double m, n, part;
};
constexpr std::array kTiles = {Tile{128, 256, 1}, Tile{256, 128, 1}, Tile{128, 128, 0.92},
                               Tile{64, 128, 0.75}, Tile{64, 64, 0.6}};
// The part of the time to write tiles that does not overlap with products. It is fitted, together
// with product_efficiency, to the shapes that tests/common/cluster/kernel_time_test.cc lists.
constexpr double kExposedStore = 0.5;
// The most parts of a sum, and the least k of each.
constexpr double kMostParts = 16, kLeastDepth = 512;
// Tensor cores want extents that are multiples of this, or take longer by the factor: an H100 does
// for 50257 columns (kernels/matmul.h). In a product with at least kSplitExtent the last few are
// computed by themselves.
constexpr size_t kExtentMultiple = 8, kSplitExtent = 64;
constexpr double kOddSlowdown = 6;

double positive_flops(const Cluster& cluster, DType dtype) {
  const double flops = cluster.product_flops[static_cast<size_t>(dtype)];
  if (flops > 0) return flops;
  throw UserError(concat(cluster.device, " has no products in ", name_of(dtype)));
}

double memory_rate(const Cluster& cluster) {
  return cluster.memory_bandwidth * cluster.memory_efficiency;
}

// What a product on a device depends on, apart from its extents.
struct Multiplier {
  double flops;         // of one multiprocessor, as large tiles reach it
  double num;           // multiprocessors
  double result_bytes;  // of an element
  double memory;        // bytes a second
};

// Returns the seconds of a product in such tiles. In each wave every multiprocessor computes a
// tile; writing it overlaps in part with the next one's products.
double seconds_of_tiles(const Multiplier& device, const Tile& tile, double m, double n, double k) {
  const double tiles = std::ceil(m / tile.m) * std::ceil(n / tile.n);
  const double area = tile.m * tile.n;
  const double product = 2 * area / (device.flops * tile.part);  // for each k
  const double store = kExposedStore * area * device.result_bytes * device.num / device.memory;
  double least = std::ceil(tiles / device.num) * (k * product + store);
  // A sum in parts uses multiprocessors that would be idle. The parts' sums are written and read.
  for (double waves = 1; waves <= 2; ++waves) {
    const double parts =
        std::min({std::floor(waves * device.num / tiles), kMostParts, std::floor(k / kLeastDepth)});
    if (parts < 2) continue;
    const double sums = 2 * parts * m * n * sizeof(float) / device.memory;
    least = std::min(least,
                     std::ceil(tiles * parts / device.num) * (k / parts * product + store) + sums);
  }
  return least;
}

double seconds_of_whole(const Multiplier& device, size_t m, size_t n, size_t k) {
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    least =
        std::min(least, seconds_of_tiles(device, tile, number_of(m), number_of(n), number_of(k)));
  }
  return least;
}

// Returns the seconds of a product that tensor cores compute, apart from the least time of a
// kernel.
double seconds_on_tensor_cores(const Cluster& cluster, const Multiplier& device, size_t m, size_t n,
                               size_t k) {
  double rest = 0;  // of the products of what is beyond
  bool odd = false;
  const auto whole = [&](size_t& extent, size_t other, size_t third) {
    const size_t beyond = extent % kExtentMultiple;
    if (beyond == 0) return;
    if (extent < kSplitExtent) {
      odd = true;
      return;
    }
    extent -= beyond;
    // It has few operations for each of the two other extents' matrix, which it reads or writes.
    rest += cluster.least_kernel_seconds +
            number_of(other) * number_of(third) * device.result_bytes / device.memory;
  };
  whole(m, n, k);
  whole(n, m, k);
  whole(k, m, n);
  return rest + (odd ? kOddSlowdown : 1) * seconds_of_whole(device, m, n, k);
}

double product_seconds(const Cluster& cluster, size_t m, size_t n, size_t k, DType dtype) {
  const double flops =
      positive_flops(cluster, dtype) * cluster.product_efficiency[static_cast<size_t>(dtype)];
  if (cluster.is_cpu) return 2 * number_of(m) * number_of(n) * number_of(k) / flops;
  const double num = number_of(cluster.multiprocessors);
  const Multiplier device = {flops / num, num, static_cast<double>(size_of(dtype)),
                             memory_rate(cluster)};
  return size_of(dtype) == 2 ? seconds_on_tensor_cores(cluster, device, m, n, k)
                             : seconds_of_whole(device, m, n, k);
}

// Returns the seconds of attention if it is not one kernel: products that write all T x T scores to
// memory or read them, and what is done with scores between the products. They are computed for
// masked pairs, too, which call.cost leaves out, since the one kernel leaves them out.
double unfused_attention_seconds(const Cluster& cluster, const KernelCall& call, bool backward) {
  const OtherProgram& program = cluster.program;
  const double scores = 2 * call.cost.other_flops, memory = memory_rate(cluster);
  // The one kernel's backward has five products, since it computes the scores again.
  const double flops = 2 * call.cost.product_flops / (backward ? 5 : 2);  // of a product
  const double rate = positive_flops(cluster, call.dtype) *
                      cluster.product_efficiency[static_cast<size_t>(call.dtype)];
  const double product = std::max(flops / rate, scores * number_of(size_of(call.dtype)) / memory);
  const double forward = 2 * product + scores * program.attention_forward_score_bytes / memory;
  if (!backward) return forward;
  return (program.recomputes_attention ? forward : 0) + 4 * product +
         scores * program.attention_backward_score_bytes / memory;
}

bool is_unfused_attention(const Cluster& cluster, const KernelCall& call) {
  const std::string_view name = call.name;
  return cluster.program.attention_forward_score_bytes > 0 &&
         (name == "attention_forward" || name == "attention_backward");
}

// Returns the part of the peak that a kernel with products reaches which is no single product.
double part_of_peak(const Cluster& cluster, const KernelCall& call) {
  const std::string_view name = call.name;
  if (!name.starts_with("attention")) {
    return cluster.product_efficiency[static_cast<size_t>(call.dtype)];
  }
  return name.ends_with("backward") ? cluster.attention_backward_efficiency
                                    : cluster.attention_forward_efficiency;
}

// Returns the points with the dtype that were measured with the number of ranks nearest to
// `busy_ranks`.
std::span<const KernelPoint> points_for(const MeasuredKernel& kernel, DType dtype,
                                        size_t busy_ranks) {
  const auto distance = [&](const KernelPoint& p) {
    return std::max(p.busy_ranks, busy_ranks) - std::min(p.busy_ranks, busy_ranks);
  };
  std::span<const KernelPoint> best;
  for (auto begin = kernel.points.begin(); begin != kernel.points.end();) {
    const auto end = std::find_if(begin, kernel.points.end(), [&](const KernelPoint& p) {
      return p.dtype != begin->dtype || p.busy_ranks != begin->busy_ranks;
    });
    const bool nearer = best.empty() || distance(*begin) < distance(best.front());
    if (begin->dtype == dtype && nearer) best = {begin, end};
    begin = end;
  }
  return best;
}

// Returns the seconds of a product. Its time for each operation is the mean of the points', in
// logarithms, weighted by 1 / d^4 with the distance d of the logarithms of the extents.
double product_by_points(std::span<const KernelPoint> points, const Cost& cost) {
  const auto log_of = [](size_t extent) { return std::log(number_of(extent)); };
  const double m = log_of(cost.m), n = log_of(cost.n), k = log_of(cost.k);
  double weights = 0, sum = 0;
  for (const KernelPoint& p : points) {
    if (p.m == 0) continue;
    const double log_flops = log_of(p.m) + log_of(p.n) + log_of(p.k);
    const double dm = log_of(p.m) - m, dn = log_of(p.n) - n, dk = log_of(p.k) - k;
    const double square = dm * dm + dn * dn + dk * dk;
    const double weight = 1 / (square * square + 1e-12);
    weights += weight;
    sum += weight * (std::log(p.seconds) - log_flops);
  }
  return weights > 0 ? std::exp(sum / weights + m + n + k) : 0;
}

// Returns seconds by work between points, in logarithms: a straight line through the two nearest
// ones. Outside of all points time grows with the work at most.
double seconds_by_work(std::span<const KernelPoint> points, const Cost& cost) {
  const auto first = std::ranges::find_if(points, [](const auto& p) { return p.work > 0; });
  if (first == points.end()) return 0;
  const double work = first->in_flops ? cost.product_flops : cost.bytes();
  const auto after =
      std::find_if(first, points.end(), [&](const auto& p) { return p.work >= work; });
  if (points.end() - first == 1) return first->seconds * work / first->work;
  const auto high = std::clamp(after, first + 1, points.end() - 1), low = high - 1;
  double slope = std::log(high->seconds / low->seconds) / std::log(high->work / low->work);
  if (work < low->work || work > high->work) slope = std::clamp(slope, 0.0, 1.0);
  const KernelPoint& base = work > high->work ? *high : *low;
  return base.seconds * std::exp(slope * std::log(work / base.work));
}

// Returns the seconds by the points of a kernel, or 0 if there are none in this dtype.
double measured_seconds(const MeasuredKernel& kernel, const KernelCall& call, size_t busy_ranks) {
  const std::span<const KernelPoint> points = points_for(kernel, call.dtype, busy_ranks);
  if (call.cost.m > 0) {
    const double seconds = product_by_points(points, call.cost);
    if (seconds > 0) return seconds;
  }
  return seconds_by_work(points, call.cost);
}

double measured_seconds(const Cluster& cluster, const KernelCall& call, size_t busy_ranks) {
  const std::string_view name = call.name;
  const auto kernel = std::ranges::lower_bound(cluster.kernels, name, {}, &MeasuredKernel::name);
  if (kernel == cluster.kernels.end() || kernel->name != name) return 0;
  return measured_seconds(*kernel, call, busy_ranks);
}

}  // namespace

double kernel_seconds(const Cluster& cluster, const KernelCall& call, size_t busy_ranks) {
  if (!cluster.kernels.empty()) {
    const double seconds = measured_seconds(cluster, call, busy_ranks);
    if (seconds > 0) return seconds;
  }
  const Cost& cost = call.cost;
  double seconds = cost.bytes() / memory_rate(cluster);
  seconds = std::max(seconds, cost.other_flops / cluster.vector_flops);
  if (is_unfused_attention(cluster, call)) {
    const bool backward = std::string_view(call.name) == "attention_backward";
    seconds = unfused_attention_seconds(cluster, call, backward);
  } else if (cost.m > 0) {
    seconds = std::max(seconds, product_seconds(cluster, cost.m, cost.n, cost.k, call.dtype));
  } else if (cost.product_flops > 0) {
    const double flops = positive_flops(cluster, call.dtype) * part_of_peak(cluster, call);
    seconds = std::max(seconds, cost.product_flops / flops);
  }
  const KernelsInstead& instead = cluster.program.instead_of(call.name);
  const double moved = cost.m > 0 ? number_of(cost.m * cost.n * size_of(call.dtype)) : cost.bytes();
  seconds += instead.more_bytes * moved / memory_rate(cluster);
  const double sharers = cluster.is_cpu ? number_of(std::max<size_t>(busy_ranks, 1)) : 1;
  return instead.launches * cluster.least_kernel_seconds + sharers * seconds;
}

double product_efficiency(const Cluster& cluster, size_t m, size_t n, size_t k, DType dtype) {
  const double flops = 2 * number_of(m) * number_of(n) * number_of(k);
  return flops / (positive_flops(cluster, dtype) * product_seconds(cluster, m, n, k, dtype));
}

double host_kernel_seconds(const Cluster& cluster, const KernelCall& call, size_t busy_ranks) {
  if (cluster.is_cpu) return kernel_seconds(cluster, call, busy_ranks);
  const Cost& cost = call.cost;
  const double rate = cluster.host_memory_bandwidth * cluster.host_memory_efficiency;
  const double seconds =
      std::max((cost.product_flops + cost.other_flops) / cluster.host_flops, cost.bytes() / rate);
  return number_of(std::max<size_t>(busy_ranks, 1)) * seconds;
}

}  // namespace ladder
