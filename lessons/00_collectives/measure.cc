#include "lessons/00_collectives/measure.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/elementwise.h"
#include "kernels/runtime/clock.h"
#include "lessons/00_collectives/execute.h"

namespace ladder {
namespace {

// Returns the value of element i with which a rank begins. It is a small whole number, so that sums
// are exact in any order.
double first_value(size_t rank, size_t i) { return static_cast<double>((rank * 7 + i * 3) % 17); }

bool has_equal_parts(Collective collective) {
  using enum Collective;
  return collective == reduce_scatter || collective == all_gather || collective == all_to_all;
}

// Returns what element i of a rank must be afterwards, or nothing if it may be anything.
std::optional<double> expected(Collective collective, size_t num_ranks, size_t n, size_t rank,
                               size_t i) {
  using enum Collective;
  const auto sum = [&] {
    double total = 0;
    for (size_t r = 0; r < num_ranks; ++r) total += first_value(r, i);
    return total;
  };
  const Elements own = part_of(n, num_ranks, rank);
  const bool is_own = i >= own.begin && i < own.end;
  size_t owner = 0;  // the rank whose part has element i
  while (i >= part_of(n, num_ranks, owner).end) ++owner;
  if (collective == broadcast) return first_value(0, i);
  if (collective == all_gather) return first_value(owner, i);
  if (collective == all_to_all) {
    return first_value(owner, own.begin + i - part_of(n, num_ranks, owner).begin);
  }
  if (collective == reduce && rank != 0) return std::nullopt;
  if (collective == reduce_scatter && !is_own) return std::nullopt;
  return sum();
}

}  // namespace

std::string name_of(Way way) { return way ? std::string(name_of(*way)) : "shared"; }

Bench::Bench(Job& job, Collective collective, size_t max_bytes)
    : job_(job),
      collective_(collective),
      stream_(DeviceType::cpu),
      memory_(DeviceType::cpu, "host", 0),
      vector_(memory_, Category::communication, DType::fp32, {max_bytes / sizeof(float)},
              job.registered()),
      scratch_(memory_, Category::communication, DType::fp32, {max_bytes / sizeof(float)},
               job.registered()) {}

size_t Bench::num_elements(Way way, size_t bytes) const {
  const size_t n = bytes / sizeof(float);
  const bool must_divide =
      collective_ == Collective::all_to_all || (!way && has_equal_parts(collective_));
  return must_divide ? n / job_.size() * job_.size() : n;
}

TensorView Bench::run(Way way, const std::vector<Exchange>& exchanges, size_t n) {
  Communicator& ranks = job_.communicator();
  const TensorView vector = vector_.view().elements(0, {n});
  const TensorView scratch = scratch_.view().elements(0, {n});
  if (way) {
    execute(ranks, stream_, exchanges, vector, scratch);
    return vector;
  }
  const Elements own = part_of(n, ranks.size(), ranks.rank());
  const TensorView part = vector.elements(own.begin, {own.size()});
  using enum Collective;
  if (collective_ == all_reduce) ranks.all_reduce(stream_, vector, {}).wait(stream_);
  if (collective_ == reduce_scatter) ranks.reduce_scatter(stream_, part, vector, {}).wait(stream_);
  if (collective_ == all_gather) ranks.all_gather(stream_, vector, part, {}).wait(stream_);
  if (collective_ == broadcast) ranks.broadcast(stream_, vector, 0, {}).wait(stream_);
  if (collective_ == reduce) ranks.reduce(stream_, vector, 0, {}).wait(stream_);
  if (collective_ != all_to_all) return vector;
  ranks.all_to_all(stream_, scratch, vector, {}).wait(stream_);
  return scratch;
}

size_t Bench::count_errors(TensorView result) const {
  const size_t n = result.num_elements();
  const float* const values = result.as<float>();
  uint64_t errors = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto wanted = expected(collective_, job_.size(), n, job_.rank(), i);
    if (wanted && !(values[i] == *wanted)) ++errors;
  }
  const std::vector<uint64_t> all = job_.all_gather({errors});
  return std::accumulate(all.begin(), all.end(), size_t{0});
}

double Bench::time_calls(Way way, const std::vector<Exchange>& exchanges, size_t n) {
  constexpr size_t kRounds = 25, kMaxCalls = 20, kBytes = size_t{1} << 20;
  const size_t calls = std::clamp<size_t>(kBytes / (n * sizeof(float)), 1, kMaxCalls);
  fill(stream_, vector_, 0);  // repeated sums stay finite
  std::vector<double> seconds;
  for (size_t round = 0; round <= kRounds; ++round) {
    job_.communicator().barrier();
    const Time begin = Clock::now();
    for (size_t call = 0; call < calls; ++call) run(way, exchanges, n);
    const double own = seconds_since(begin) / static_cast<double>(calls);
    const auto picoseconds = static_cast<uint64_t>(std::llround(own * 1e12));
    const uint64_t slowest = std::ranges::max(job_.all_gather({picoseconds}));
    if (round > 0) seconds.push_back(static_cast<double>(slowest) * 1e-12);  // the first warms up
  }
  return std::ranges::min(seconds);  // other programs on the machine only make it slower
}

Measurement Bench::measure(Way way, size_t bytes, bool timed) {
  const size_t n = num_elements(way, bytes);
  std::vector<Exchange> exchanges;
  if (way) exchanges = make_plan(*way, collective_, job_.size(), n)[job_.rank()];
  float* const values = vector_.view().as<float>();
  const Elements own = part_of(n, job_.size(), job_.rank());
  for (size_t i = 0; i < n; ++i) {
    const bool is_missing =
        collective_ == Collective::all_gather && (i < own.begin || i >= own.end);
    values[i] = is_missing ? -1.0F : static_cast<float>(first_value(job_.rank(), i));
  }
  Measurement result = {way, n * sizeof(float)};
  result.errors = count_errors(run(way, exchanges, n));
  if (timed) result.seconds = time_calls(way, exchanges, n);
  return result;
}

}  // namespace ladder
