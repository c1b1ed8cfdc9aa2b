// Work on different streams that nothing orders.
#include "kernels/runtime/low_precision.h"
#include "tests/kernels/emulator/planted/bugs.h"
#include "tests/kernels/emulator/planted/run.h"

namespace ladder::planted {
namespace {

class Streams {
 public:
  Streams() {
    for (cudaStream_t& stream : all) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  ~Streams() {
    for (cudaStream_t stream : all) cudaStreamDestroy(stream);
    cudaEventDestroy(event);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // Work that stream `to` is given from now on runs after what `from` has been given.
  void order(int from, int to) const {
    cudaEventRecord(event, all[from]);
    cudaStreamWaitEvent(all[to], event, 0);
  }

  cudaStream_t all[3] = {};
  cudaEvent_t event = nullptr;
};

template <class T>
__global__ void write(T* to, size_t at) {
  to[at] = static_cast<T>(1.0F);  // @writes
}
__global__ void add(int* to) {
  atomicAdd(to, 1);  // @adds
}
__global__ void read(int* to, const int* from) {
  *to = *from;  // @reads
}

void launch_write(const Streams& streams, int stream, int* to, size_t at = 0) {
  launch<write<int>>(streams.all[stream], {dim3(1), dim3(1)}, to, at);
}
void launch_read(const Streams& streams, int stream, int* to, const int* from) {
  launch<read>(streams.all[stream], {dim3(1), dim3(1)}, to, from);
}

void missing_event(bool wrong) {
  const Streams streams;
  const auto x = counted<int>(1), y = counted<int>(1);
  launch_write(streams, 0, x.data());
  if (!wrong) streams.order(0, 1);
  launch_read(streams, 1, y.data(), x.data());
  cudaDeviceSynchronize();
}

// By way of a third stream; the event is recorded before the write.
void early_event(bool wrong) {
  const Streams streams;
  const auto x = counted<int>(1), y = counted<int>(1);
  if (wrong) streams.order(0, 2);
  launch_write(streams, 0, x.data());
  if (!wrong) streams.order(0, 2);
  streams.order(2, 1);
  launch_read(streams, 1, y.data(), x.data());
  cudaDeviceSynchronize();
}

void host_waits_for_another_stream(bool wrong) {
  const Streams streams;
  const auto x = counted<int>(1), y = counted<int>(1);
  launch_read(streams, 0, y.data(), x.data());
  cudaStreamSynchronize(streams.all[wrong ? 1 : 0]);
  launch_write(streams, 1, x.data());
  cudaDeviceSynchronize();
}

// The right one writes the other half of a word: 16 bits each.
void the_same_element(bool wrong) {
  const Streams streams;
  const DeviceArray<bfloat16> x(std::vector<bfloat16>(2));
  launch<write<bfloat16>>(streams.all[0], {dim3(1), dim3(1)}, x.data(), size_t{0});
  launch<write<bfloat16>>(streams.all[1], {dim3(1), dim3(1)}, x.data(), size_t{wrong ? 0u : 1u});
  cudaDeviceSynchronize();
}

// Two atomic additions need no order.
void atomic_and_plain(bool wrong) {
  const Streams streams;
  const auto x = counted<int>(1);
  launch<add>(streams.all[0], {dim3(1), dim3(1)}, x.data());
  if (wrong) {
    launch_write(streams, 1, x.data());
  } else {
    launch<add>(streams.all[1], {dim3(1), dim3(1)}, x.data());
  }
  cudaDeviceSynchronize();
}

// The default stream and those that are non-blocking do not wait for each other.
void memset_on_the_default_stream(bool wrong) {
  const Streams streams;
  const auto x = counted<int>(1), y = counted<int>(1);
  cudaMemset(x.data(), 0, 4);
  if (!wrong) cudaStreamSynchronize(nullptr);
  launch_read(streams, 0, y.data(), x.data());
  cudaDeviceSynchronize();
}

// A buffer for transfers that is filled again while the first copy out of it may be under way.
void copy_into_what_is_copied(bool wrong) {
  const Streams streams;
  const auto from = counted<int>(2), buffer = counted<int>(1), to = counted<int>(1);
  const auto copy = [&](const DeviceArray<int>& out, const int* in, int stream) {
    cudaMemcpyAsync(out.data(), in, 4, cudaMemcpyDeviceToDevice, streams.all[stream]);
  };
  copy(to, buffer.data(), 0);
  if (!wrong) streams.order(0, 1);
  copy(buffer, from.data(), 1);
  cudaDeviceSynchronize();
}

}  // namespace

std::vector<Bug> stream_races() {
  const std::string end = ", and neither an event nor a wait of the host orders the two";
  const std::string of_four = "byte 0 of the 4 bytes at 0x?, on stream ";
  const std::string ours = "ladder::planted::{anonymous}::";
  return {
      {"an event is missing",
       "kernel " + ours +
           "read, block (0, 0, 0): thread (0, 0, 0): race of streams: reads 4 bytes "
           "of global memory at @reads, " +
           of_four + "2; kernel " + ours + "write<int> on stream 1 wrote it at @writes" + end,
       missing_event},
      {"an event is recorded too early",
       "reads 4 bytes of global memory at @reads, " + of_four + "2; kernel " + ours +
           "write<int> on stream 1 wrote it at @writes" + end,
       early_event},
      {"the host waits for another stream",
       "writes 4 bytes of global memory at @writes, " + of_four + "2; kernel " + ours +
           "read on stream 1 read it at @reads" + end,
       host_waits_for_another_stream},
      {"two streams write the same element",
       "writes 2 bytes of global memory at @writes, " + of_four + "2; kernel " + ours +
           "write<ladder::bfloat16> on stream 1 wrote it at @writes" + end,
       the_same_element},
      {"one stream adds atomically and another writes",
       "writes 4 bytes of global memory at @writes, " + of_four + "2; kernel " + ours +
           "add on stream 1 wrote it at @adds" + end,
       atomic_and_plain},
      {"a stream does not wait for the default stream",
       "reads 4 bytes of global memory at @reads, " + of_four +
           "1; cudaMemset on stream 0 wrote it" + end,
       memset_on_the_default_stream},
      {"a copy overtakes another one",
       "race of streams: a copy writes 4 bytes, " + of_four + "2; a copy on stream 1 read it" + end,
       copy_into_what_is_copied},
  };
}

}  // namespace ladder::planted
