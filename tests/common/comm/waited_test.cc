// What a stream of the device waits for operations in the background. The host waits for longer.
#include <chrono>
#include <thread>

#include "common/comm/worker.h"
#include "kernels/elementwise.h"
#include "kernels/emulator/streams.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using emulator::StreamOrder;

// Returns the seconds that a stream has waited for an operation of 100 ms. At the wait it still has
// something to compute if streams are deferred.
double waited_for_operation(StreamOrder order) {
  emulator::set_stream_order(order);
  Stream stream(DeviceType::emulator);
  Memory memory(DeviceType::emulator, "device", 0);
  const Tensor x(memory, Category::workspace, DType::fp32, {100});
  // After three waits of the host no stream is early for a while, in every run.
  for (int i = 0; i < 3; ++i) stream.synchronize();
  Worker worker(DeviceType::emulator);
  fill(stream, x, 1);
  double seconds = -1;
  const auto work = [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
  worker.start(Worker::Kind::other, work, [&](double waited) { seconds = waited; }).wait(stream);
  stream.synchronize();
  emulator::set_stream_order(StreamOrder::immediate);
  return seconds;
}

TEST_CASE("a stream that still computes has not waited for an operation, one that is idle has") {
  CHECK(waited_for_operation(StreamOrder::deferred) == 0);
  CHECK(waited_for_operation(StreamOrder::immediate) > 0);
}

}  // namespace
}  // namespace ladder
