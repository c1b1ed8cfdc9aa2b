#include "kernels/runtime/stream.h"

#include <algorithm>
#include <cstring>

#include "kernels/runtime/clock.h"
#include "kernels/runtime/cuda.h"
#include "kernels/runtime/device_wait.h"
#include "kernels/runtime/kernel_times.h"

namespace ladder {
namespace {

void copy_on_cpu(const TensorView& destination, const ConstTensorView& source) {
  const size_t bytes = source.num_bytes();
  constexpr size_t kSegment = size_t{1} << 20;
#pragma omp parallel for schedule(static)
  for (size_t first = 0; first < bytes; first += kSegment) {
    std::memcpy(static_cast<char*>(destination.data()) + first,
                static_cast<const char*>(source.data()) + first, std::min(kSegment, bytes - first));
  }
}

cudaMemcpyKind kind_of(DeviceType to, DeviceType from) {
  if (from == DeviceType::cpu) {
    return to == DeviceType::cpu ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  }
  return to == DeviceType::cpu ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

// Returns what a call of cudaStreamQuery or cudaEventQuery has said: whether the work has run.
bool has_passed(cudaError_t status, const char* call) {
  if (status != cudaErrorNotReady) cuda_check(status, call);
  if (status == cudaErrorNotReady) cudaGetLastError();  // the next launch would report it
  return status == cudaSuccess;
}

}  // namespace

Stream::Stream(DeviceType device, StreamPriority priority) : device_(device) {
  if (simulation_ != nullptr) simulated_ = simulation_->add_stream(device);
  if (simulation_ != nullptr || device == DeviceType::cpu) return;
  time_kernels_if_asked();
  int lowest = 0, highest = 0;
  cuda_check(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
             "cudaDeviceGetStreamPriorityRange");
  cuda_check(cudaStreamCreateWithPriority(&native_, cudaStreamNonBlocking,
                                          priority == StreamPriority::high ? highest : lowest),
             "cudaStreamCreateWithPriority");
}

Stream::~Stream() {
  kept_.clear();
  if (simulation_ != nullptr) simulation_->remove_stream(simulated_);
  if (native_ != nullptr) cudaStreamDestroy(native_);
}

void Stream::synchronize() {
  if (simulation_ != nullptr) return simulation_->synchronize(simulated_);
  if (native_ == nullptr) return;
  wait_with_checks([this] { return has_passed(cudaStreamQuery(native_), "cudaStreamQuery"); },
                   [this] { cuda_check(cudaStreamSynchronize(native_), "cudaStreamSynchronize"); });
}

void Stream::wait(const Event& event) {
  if (simulation_ != nullptr) return simulation_->wait(simulated_, event.mark_);
  if (native_ == nullptr) return;  // the CPU has passed every mark
  cuda_check(cudaStreamWaitEvent(native_, event.native_, 0), "cudaStreamWaitEvent");
}

Event::~Event() {
  if (simulation_ != nullptr) simulation_->release(mark_);
  if (native_ != nullptr) cudaEventDestroy(native_);
}

void Event::record(Stream& stream) {
  if (Simulation* const simulation = stream.simulation()) {
    if (simulation_ != nullptr) simulation_->release(mark_);
    simulation_ = simulation;
    mark_ = simulation->record(stream.simulated());
    return;
  }
  time_ = Clock::now();
  if (stream.device() == DeviceType::cpu) return;
  if (native_ == nullptr) {
    cuda_check(cudaEventCreateWithFlags(&native_, cudaEventDefault), "cudaEventCreateWithFlags");
  }
  cuda_check(cudaEventRecord(native_, stream.native()), "cudaEventRecord");
}

void Event::synchronize() {
  if (simulation_ != nullptr) return simulation_->synchronize_mark(mark_);
  if (native_ == nullptr) return;
  wait_with_checks([this] { return has_passed(); },
                   [this] { cuda_check(cudaEventSynchronize(native_), "cudaEventSynchronize"); });
}

bool Event::has_passed() const {
  check(simulation_ == nullptr, "Event::has_passed: in a simulation nothing is asked for");
  return native_ == nullptr || ladder::has_passed(cudaEventQuery(native_), "cudaEventQuery");
}

double Event::elapsed_ms(const Event& begin, const Event& end) {
  if (Simulation* const simulation = begin.simulation_) {
    return 1e3 * seconds_between(simulation->time_of(begin.mark_), simulation->time_of(end.mark_));
  }
  if (begin.native_ == nullptr) {
    return std::chrono::duration<double, std::milli>(end.time_ - begin.time_).count();
  }
  float milliseconds = 0;
  cuda_check(cudaEventElapsedTime(&milliseconds, begin.native_, end.native_),
             "cudaEventElapsedTime");
  return milliseconds;
}

void copy(Stream& stream, TensorView destination, ConstTensorView source) {
  check_argument("copy", "destination", destination, destination.device(), source.dtype(),
                 source.shape());
  if (Simulation* const simulation = stream.simulation()) {
    return simulation->copy(stream.simulated(), destination, source);
  }
  if (stream.device() != DeviceType::cpu) {
    cuda_check(cudaMemcpyAsync(destination.data(), source.data(), source.num_bytes(),
                               kind_of(destination.device(), source.device()), stream.native()),
               "cudaMemcpyAsync");
    return;
  }
  check_argument("copy", "destination", destination, DeviceType::cpu, source.dtype(),
                 source.shape());
  check_argument("copy", "source", source, DeviceType::cpu, source.dtype(), source.shape());
  copy_on_cpu(destination, source);
}

}  // namespace ladder
