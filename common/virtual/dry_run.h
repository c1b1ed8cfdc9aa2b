// A program of one rank that runs without doing anything.
#pragma once

#include "kernels/runtime/simulation.h"

namespace ladder {

// While a DryRun exists, it is the current Simulation. Kernels, copies, marks and waits return at
// once, and no time passes. Afterwards the simulation before it is current again.
class DryRun : public Simulation {
 public:
  DryRun() : before_(current()) { set_current(this); }
  ~DryRun() override { set_current(before_); }

  Time now() override { return {}; }
  StreamId add_stream(DeviceType) override { return 0; }
  void remove_stream(StreamId) noexcept override {}
  void launch(StreamId, const KernelCall&) override {}
  void copy(StreamId, const TensorView&, const ConstTensorView&) override {}
  void synchronize(StreamId) override {}
  void synchronize_mark(MarkId) override {}
  MarkId record(StreamId) override { return kNoMark; }
  void release(MarkId) noexcept override {}
  void wait(StreamId, MarkId) override {}
  Time time_of(MarkId) override { return {}; }

 private:
  Simulation* const before_;
};

}  // namespace ladder
