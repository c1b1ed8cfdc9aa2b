#include "tools/measure/calibrator/measure.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/runtime/clock.h"
#include "kernels/runtime/median.h"

namespace ladder {
namespace {

// A measurement has several batches of calls; each takes kBatchSeconds or one call.
constexpr double kBatchSeconds = 2e-3, kSeconds = 0.04;
constexpr double kLeastBatches = 3, kMostBatches = 21;
// Cold arguments lie in as much memory as a step moves, but in no more than this, which is larger
// than caches.
constexpr size_t kMostPoolBytes = size_t{128} << 20;
// How often a collective runs in the background of products.
constexpr int kRounds = 15;
// Collectives work on parts of this, so that they too find their data in memory.
constexpr size_t kSharedBytes = size_t{128} << 20;

}  // namespace

KernelCall square_product(size_t extent, DType dtype) {
  const double n = number_of(extent), bytes = n * n * number_of(size_of(dtype));
  return {"matmul",
          dtype,
          {.product_flops = 2 * n * n * n,
           .bytes_read = 2 * bytes,
           .bytes_written = bytes,
           .m = extent,
           .n = extent,
           .k = extent}};
}

Measurer::Measurer(Communicator& ranks, MemorySource* registered, size_t step_bytes)
    : ranks_(ranks), step_bytes_(step_bytes) {
  if (ranks.size() == 1) return;
  shared_ = Tensor(memory_, Category::communication, DType::fp32, {kSharedBytes / sizeof(float)},
                   registered);
}

double Measurer::mean_of(double own) {
  const TensorView number(&own, DType::fp64, DeviceType::cpu, {1});
  ranks_.all_reduce(stream_, number, {}).wait(stream_);
  return own / number_of(ranks_.size());
}

double Measurer::largest_of(double own) {
  const TensorView number(&own, DType::fp64, DeviceType::cpu, {1});
  ranks_.all_reduce(stream_, number, {.reduction = Reduction::max}).wait(stream_);
  return own;
}

double Measurer::seconds_of(const std::function<void()>& call) {
  const auto timed = [&](size_t count) {
    const Time begin = Clock::now();
    for (size_t i = 0; i < count; ++i) call();
    return seconds_since(begin) / number_of(count);
  };
  timed(1);  // touches memory, and lets libraries prepare
  ranks_.barrier();
  // All ranks make the same number of calls, so that they are busy for the same time.
  const double once = largest_of(timed(1));
  const auto count = static_cast<size_t>(std::ceil(kBatchSeconds / std::max(once, 1e-7)));
  const double batches =
      std::clamp(kSeconds / (once * number_of(count)), kLeastBatches, kMostBatches);
  ranks_.barrier();
  std::vector<double> times;
  for (size_t i = 0; i < static_cast<size_t>(batches); ++i) times.push_back(timed(count));
  return mean_of(median(times));
}

double Measurer::kernel_seconds(const KernelCall& call) {
  const KernelCase one = case_of(call, buffers_);
  buffers_.prepare(stream_, std::min(step_bytes_ / 2, kMostPoolBytes));
  return seconds_of([&] {
    buffers_.next();
    one(stream_, buffers_);
  });
}

Work Measurer::start(Collective collective, size_t bytes, bool background) {
  const size_t n = bytes / sizeof(float), share = n / ranks_.size(), rank = ranks_.rank();
  const size_t places = kSharedBytes / (2 * bytes);
  place_ = (place_ + 1) % places;
  const TensorView all = shared_.view().elements(2 * place_ * n, {n});
  const TensorView other = shared_.view().elements((2 * place_ + 1) * n, {n});
  const TensorView own = all.elements(rank * share, {share});
  const CallOptions options = {.background = background};
  switch (collective) {
    case Collective::all_reduce:
      return ranks_.all_reduce(stream_, all, options);
    case Collective::reduce_scatter:
      return ranks_.reduce_scatter(stream_, own, all, options);
    case Collective::all_gather:
      return ranks_.all_gather(stream_, all, own, options);
    case Collective::broadcast:
      return ranks_.broadcast(stream_, all, 0, options);
    case Collective::reduce:
      return ranks_.reduce(stream_, all, 0, options);
    case Collective::all_to_all:
      return ranks_.all_to_all(stream_, other, all, options);
    default:
      fail("a collective without data cannot be measured");
  }
}

double Measurer::collective_seconds(Collective collective, size_t bytes) {
  return seconds_of([&] { start(collective, bytes, false).wait(stream_); });
}

double Measurer::background_seconds(Collective collective, size_t bytes) {
  const double itself = collective_seconds(collective, bytes);
  const KernelCase product = case_of(square_product(256, DType::fp32), buffers_);
  buffers_.prepare(stream_, size_t{4} << 20);
  const auto multiply = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      buffers_.next();
      product(stream_, buffers_);
    }
  };
  const double one = seconds_of([&] { multiply(1); });
  // The collective must end before the products do.
  const size_t count = std::max<size_t>(4, static_cast<size_t>(3 * itself / one));
  std::vector<double> added;
  for (int round = 0; round < kRounds; ++round) {
    const Time begin = Clock::now();
    multiply(count);
    const double alone = seconds_since(begin);
    Work work = start(collective, bytes, true);
    multiply(count);
    work.wait(stream_);
    added.push_back(seconds_since(begin) - 2 * alone);
  }
  return std::max(itself, mean_of(median(added)));
}

double Measurer::message_seconds(size_t bytes) {
  const size_t n = bytes / sizeof(float);
  bool is_back = false;
  // There and back, so that a message begins when the one before has come.
  return seconds_of([&] {
    const TensorView view = shared_.view().elements(0, {n});
    const bool sends = (ranks_.rank() == 0) != is_back;
    is_back = !is_back;
    if (ranks_.rank() > 1) return;
    const size_t peer = 1 - ranks_.rank();
    if (sends) {
      ranks_.send(stream_, view, peer, {}).wait(stream_);
    } else {
      ranks_.recv(stream_, view, peer, {}).wait(stream_);
    }
  });
}

}  // namespace ladder
