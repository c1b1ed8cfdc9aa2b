#include "tools/measure/calibrator/measure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/median.h"

namespace ladder {
namespace {

// A measurement has several batches of calls; each takes kBatchSeconds or one call.
constexpr double kBatchSeconds = 2e-3, kSeconds = 0.04;
constexpr double kLeastBatches = 3, kMostBatches = 21;
// How often a collective runs in the background of products.
constexpr int kRounds = 15;
// Collectives work on parts of this, so that they too find their data in memory.
constexpr size_t kSharedBytes = size_t{128} << 20;

// A product of two square matrices.
struct Product {
  Product(Memory& memory, Stream& stream, size_t extent, DType dtype) {
    for (Tensor& tensor : tensors) {
      tensor = Tensor(memory, Category::workspace, dtype, {extent, extent});
      fill_normal(stream, tensor, 1, 0, 0.02);
    }
  }
  void operator()(Stream& stream) { matmul(stream, tensors[0], tensors[1], tensors[2], {}); }

  std::array<Tensor, 3> tensors;
};

}  // namespace

Measurer::Measurer(Communicator& ranks, MemorySource* registered) : ranks_(ranks) {
  if (ranks.size() == 1) return;
  shared_ = Tensor(memory_, Category::communication, DType::fp32, {kSharedBytes / sizeof(float)},
                   registered);
}

std::vector<double> Measurer::means_of(const std::vector<double>& own) {
  std::vector<double> all = own;
  for (const double number : own) all.push_back(number == 0 ? 0 : 1);
  ranks_.all_reduce(stream_, TensorView(all.data(), DType::fp64, DeviceType::cpu, {all.size()}), {})
      .wait(stream_);
  std::vector<double> means;
  for (size_t i = 0; i < own.size(); ++i) means.push_back(all[i] / all[own.size() + i]);
  return means;
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
  return means_of({median(times)}).front();
}

double Measurer::product_seconds(size_t extent, DType dtype) {
  Product product(memory_, stream_, extent, dtype);
  return seconds_of([&] { product(stream_); });
}

double Measurer::fill_seconds(size_t count) {
  const Tensor tensor(memory_, Category::workspace, DType::fp32, {count});
  return seconds_of([&] { fill(stream_, tensor, 0); });
}

Work Measurer::start(Collective collective, size_t bytes, bool background) {
  const size_t n = bytes / sizeof(float), share = n / ranks_.size(), rank = ranks_.rank();
  const size_t turns = kSharedBytes / (2 * bytes);
  turn_ = (turn_ + 1) % turns;
  const TensorView all = shared_.view().elements(2 * turn_ * n, {n});
  const TensorView other = shared_.view().elements((2 * turn_ + 1) * n, {n});
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
  Product product(memory_, stream_, 256, DType::fp32);
  const auto multiply = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) product(stream_);
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
  return std::max(itself, means_of({median(added)}).front());
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
