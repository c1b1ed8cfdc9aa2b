#include "common/comm/network_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/runtime/clock.h"

namespace ladder {
namespace {

// Returns the seconds that one message and its answer take, as the sender measures them.
double ping(Communicator& ranks, Stream& stream, const Tensor& message, size_t from, size_t to) {
  const TensorView answer = message.view().elements(0, {1});
  const Time begin = Clock::now();
  if (ranks.rank() == from) {
    ranks.send(stream, message, to, {}).wait(stream);
    ranks.recv(stream, answer, to, {}).wait(stream);
  } else if (ranks.rank() == to) {
    ranks.recv(stream, message, from, {}).wait(stream);
    ranks.send(stream, answer, from, {}).wait(stream);
  }
  return seconds_since(begin);
}

}  // namespace

std::vector<MeasuredLink> measure_links(Job& job, size_t bytes) {
  constexpr int kTries = 3;
  Communicator& ranks = job.communicator();
  Stream stream(DeviceType::cpu);
  Memory memory(DeviceType::cpu, "host", 0);
  const Tensor message(memory, Category::communication, DType::int32, {(bytes + 3) / 4});
  std::vector<uint64_t> nanoseconds(job.size());  // the times of this rank's messages, by receiver
  const auto measure = [&](size_t from, size_t to) {
    ping(ranks, stream, message, from, to);  // connects the two, and touches the memory
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i < kTries; ++i) best = std::min(best, ping(ranks, stream, message, from, to));
    if (job.rank() == from) nanoseconds[to] = std::max<uint64_t>(1, std::llround(best * 1e9));
    ranks.barrier();
  };
  for (size_t a = 0; a < job.size(); ++a) {
    for (size_t b = a + 1; b < job.size(); ++b) {
      measure(a, b);
      measure(b, a);
    }
  }
  const std::vector<uint64_t> all = job.all_gather(nanoseconds);
  std::vector<MeasuredLink> links;
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t from = i / job.size(), to = i % job.size();
    const double seconds = static_cast<double>(all[i]) * 1e-9;
    if (from != to) links.push_back({from, to, static_cast<double>(bytes) / seconds});
  }
  return links;
}

}  // namespace ladder
