// What stands in for devices, streams and the clock while a program is simulated: work is not done,
// it only takes time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/runtime/clock.h"
#include "kernels/runtime/cost.h"
#include "kernels/runtime/device.h"

namespace ladder {

// While a Simulation is current, every stream, event and time that the program asks for is its own.
// A kernel's call is reported to it instead of being run, so no tensor needs memory, and nothing
// that is computed has a value. Ranks take turns in one thread, and each function is about the rank
// whose turn it is: its streams, its marks, its host's clock.
class Simulation {
 public:
  // Numbers of a stream and of a mark. A mark is a point in a stream; Event::record() makes one.
  using StreamId = uint32_t;
  using MarkId = uint32_t;
  static constexpr MarkId kNoMark = 0;

  virtual ~Simulation() = default;

  // Returns the time on the clock of the host.
  virtual Time now() = 0;

  virtual StreamId add_stream(DeviceType device) = 0;
  virtual void remove_stream(StreamId stream) noexcept = 0;
  // Queue a kernel, and a copy. On a stream of a GPU they return at once; on one
  // of the CPU when the work is over, as on the real CPU.
  virtual void launch(StreamId stream, const KernelCall& call) = 0;
  virtual void copy(StreamId stream, const TensorView& to, const ConstTensorView& from) = 0;
  // Let other ranks run until all work that is queued on the stream is over, or all that is queued
  // before the mark. Then the rank goes on, at that time.
  virtual void synchronize(StreamId stream) = 0;
  virtual void synchronize_mark(MarkId mark) = 0;

  // Puts a mark after the work that is queued. It exists until release().
  virtual MarkId record(StreamId stream) = 0;
  virtual void release(MarkId mark) noexcept = 0;
  // Makes what is queued from now on wait for a mark.
  virtual void wait(StreamId stream, MarkId mark) = 0;
  // Returns the time at which a mark was passed. REQUIRES: it has been passed.
  virtual Time time_of(MarkId mark) = 0;

  // Returns the simulation that runs, or null: then everything is real.
  static Simulation* current() { return current_; }

 protected:
  // A simulation makes itself current while it runs. Only one thread does so at a time, and no
  // other thread then asks for streams or the time.
  static void set_current(Simulation* simulation) { current_ = simulation; }

 private:
  inline static Simulation* current_ = nullptr;
};

}  // namespace ladder
