// The bubble and the times that a pipeline prints are those of the device, so they do not depend on
// when the host's calls return: deferred streams (kernels/emulator/streams.h) give the same.
#include <algorithm>
#include <regex>

#include "kernels/emulator/streams.h"
#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/16_pipeline_schedules/trainer.h"
#include "tests/lessons/device.h"

namespace ladder::testing {
namespace {

using emulator::StreamOrder;

// The bubble in percent, and the ms of a micro-batch's forward and backward without the classifier.
struct Printed {
  double bubble = 1e9, forward = 1e9, backward = 1e9;
};

template <class T>
Printed printed_by(StreamOrder order, Communicator& all, const typename T::Flags& flags) {
  emulator::set_stream_order(order);
  const auto group = all.split(0);
  RunConfig config = on_device(split_config(DType::fp32, 1), DeviceType::emulator);
  config.model.num_layers = 2;
  config.global_batch_size = 4;
  std::string report;
  {
    Session<T> session(config, *group, nullptr, flags);
    for (int step = 0; step < 2; ++step) session.trainer->step();
    report = session.trainer->report();
  }
  emulator::set_stream_order(StreamOrder::immediate);
  Printed printed;
  std::smatch numbers;
  if (std::regex_search(report, numbers, std::regex("bubble of 1f1b: (\\S+) % of the wall"))) {
    printed.bubble = std::stod(numbers[1]);
  }
  if (std::regex_search(report, numbers, std::regex("--times ([^,]+),([^,]+),([^,]+),"))) {
    printed.forward = std::stod(numbers[1]);
    printed.backward = std::stod(numbers[2]) + std::stod(numbers[3]);
  }
  return printed;
}

// By the host's clock deferred streams have times that are 30 times too short, and a bubble that is
// 4 times too large. What else the machine does makes times longer, by half and more where tests
// run side by side: the shortest of several rounds count, and as soon as all are alike there are no
// more rounds. On an idle machine the first round is alike within 1.3.
constexpr double kAlike = 2.5;

template <class T>
void check_alike(const typename T::Flags& flags) {
  const auto device = device_for_nccl();
  if (!device) return;
  Ranks ranks(*device);
  NcclMemory memory;
  const auto all = nccl_world(ranks, &memory);
  Printed immediate, deferred;
  const auto keep_least = [&](Printed& least, StreamOrder order) {
    const Printed printed = printed_by<T>(order, *all, flags);
    least.bubble = std::min(least.bubble, printed.bubble);
    least.forward = std::min(least.forward, printed.forward);
    least.backward = std::min(least.backward, printed.backward);
  };
  const auto are_alike = [](double a, double b) { return a <= kAlike * b && b <= kAlike * a; };
  const auto all_alike = [&] {
    return are_alike(immediate.bubble, deferred.bubble) &&
           are_alike(immediate.forward, deferred.forward) &&
           are_alike(immediate.backward, deferred.backward);
  };
  int32_t done = 0;
  for (int round = 0; round < 8 && done == 0; ++round) {
    keep_least(immediate, StreamOrder::immediate);
    keep_least(deferred, StreamOrder::deferred);
    done = all_alike();  // rank 0 knows, and tells the other
    mpi_check(MPI_Bcast(&done, 1, MPI_INT32_T, 0, MPI_COMM_WORLD));
  }
  CAPTURE(immediate.bubble, deferred.bubble, immediate.forward, deferred.forward,
          immediate.backward, deferred.backward);
  CHECK(done == 1);
}

TEST_CASE("lesson 08 prints the same bubble with deferred streams") {
  check_alike<PipelineTrainer>({.schedule = ScheduleKind::one_f_one_b});
}

TEST_CASE("lesson 16 prints the same bubble and times with deferred streams") {
  check_alike<ScheduleTrainer>({.order = Order::one_f_one_b});
}

}  // namespace
}  // namespace ladder::testing
