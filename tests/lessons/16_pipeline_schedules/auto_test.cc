// The search of --schedule auto against the named schedules.
#include <limits>
#include <random>

#include "common/schedule/build.h"
#include "common/schedule/cut.h"
#include "common/schedule/simulate.h"
#include "kernels/runtime/check.h"
#include "lessons/16_pipeline_schedules/plan.h"
#include "tests/catch.h"

namespace ladder {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A machine: what it takes, and what it has. Stages differ in what they hold and in what an
// activation buffer takes, so each has room for another number of them.
struct Profile {
  size_t num_stages, num_micro_batches;
  std::vector<size_t> held, buffer;  // bytes of each stage, and of a buffer with one model chunk
  size_t memory = 0;
  std::vector<double> times;  // of --times
  // The bytes of a stage. A buffer of half a stage has half the bytes.
  size_t bytes(const PipelinePlan& plan, size_t stage) const {
    return held[stage] +
           buffer[stage] / plan.placement.num_chunks * num_buffers(plan.schedule[stage]);
  }
};

Profile draw_profile(std::mt19937& random) {
  std::uniform_real_distribution<double> factor(0.5, 2);
  const auto whole = [&](size_t least, size_t most) {
    return least + random() % (most - least + 1);
  };
  Profile profile = {whole(2, 4), whole(4, 10), {}, {}, 0, {}};
  for (size_t stage = 0; stage < profile.num_stages; ++stage) {
    profile.held.push_back(whole(0, 1000));
    profile.buffer.push_back(12 * whole(2, 10));
    const size_t fewest = profile.held.back() + 2 * profile.buffer.back();
    profile.memory = std::max(profile.memory, fewest + whole(0, 500));
  }
  const double forward = 10 * factor(random);
  profile.times = {forward, forward * factor(random), forward * factor(random),
                   0.2 * forward * factor(random), 0.03 * forward * factor(random)};
  return profile;
}

RunConfig config_of(const Profile& profile) {
  RunConfig config;
  config.model = {
      .num_layers = 12, .num_heads = 2, .hidden = 32, .vocab_size = 1, .sequence_length = 16};
  config.micro_batch_size = 1;
  config.global_batch_size = profile.num_micro_batches;
  config.device_memory = profile.memory;
  return config;
}

// The time of a step, or infinity if a stage has not the memory.
double time_of(const PipelinePlan& plan, const Profile& profile, const RunConfig& config) {
  const ModelDescription model = describe(config.model);
  const ModelPartition whole = {.first = 0, .end = model.operations.size()};
  const double classifier = 3 * model.operations.back().forward_flops;
  const double all = part_flops(model, whole) - classifier;
  std::vector<VirtualStageTimes> times;
  for (const ModelPartition& part : plan.chunks) {
    const bool is_last = part.end >= model.operations.size();
    const double share = (part_flops(model, part) - (is_last ? classifier : 0)) / all;
    times.push_back({share * profile.times[0] + (is_last ? profile.times[3] : 0),
                     share * profile.times[1], share * profile.times[2]});
  }
  const Schedule& schedule = plan.schedule;
  for (size_t stage = 0; stage < schedule.size(); ++stage) {
    if (profile.bytes(plan, stage) > config.device_memory) return kInfinity;
  }
  return extent_of(
             simulate(schedule, costs_of(plan.placement, times, profile.times[4]), Links::many))
      .length();
}

TEST_CASE("for 100 random machines auto is as fast as any schedule that fits, and often faster") {
  std::mt19937 random(16);
  size_t num_faster = 0;
  for (size_t i = 0; i < 100; ++i) {
    Profile profile = draw_profile(random);
    const ProcessGrid grid = {.pipeline_size = profile.num_stages};
    const auto plan_with = [&](std::optional<Order> order) {
      const ScheduleFlags flags = {.order = order, .times = profile.times};
      return *plan_schedule(config_of(profile), grid, flags, [&](const auto& plan, size_t stage) {
        return profile.bytes(*plan, stage);
      });
    };
    // Every second machine has the memory of a named schedule, to the byte.
    const Order exact = i % 4 == 0 ? Order::one_f_one_b : Order::zb_v;
    if (i % 2 == 0) {
      const PipelinePlan plan = plan_with(exact);
      profile.memory = 0;
      for (size_t stage = 0; stage < profile.num_stages; ++stage) {
        profile.memory = std::max(profile.memory, profile.bytes(plan, stage));
      }
    }
    const auto time_with = [&](std::optional<Order> order) {
      return time_of(plan_with(order), profile, config_of(profile));
    };
    double named = kInfinity;
    for (Order order : kOrders) {
      const bool divides = profile.num_micro_batches % profile.num_stages == 0;
      if (order == Order::interleaved && !divides) continue;
      named = std::min(named, time_with(order));
    }
    const double found = time_with(std::nullopt);
    CAPTURE(i, profile.num_stages, profile.num_micro_batches, profile.held, profile.buffer,
            profile.memory);
    if (i % 2 == 0) CHECK(time_with(exact) < kInfinity);
    REQUIRE(found < kInfinity);
    CHECK(found <= named * (1 + 1e-12));
    num_faster += found < 0.99 * named;
  }
  INFO(num_faster << " faster");
  CHECK(num_faster >= 30);
}

}  // namespace
}  // namespace ladder
