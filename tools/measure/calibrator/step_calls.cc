#include "tools/measure/calibrator/step_calls.h"

#include <cstring>

#include "common/comm/one_rank.h"
#include "common/io/printable.h"
#include "common/train/run/simulated_rank.h"
#include "common/train/trainer/ranks.h"
#include "common/virtual/dry_run.h"
#include "common/virtual/lazy_memory.h"
#include "lessons/19_planning/candidate.h"

namespace ladder {
namespace {

constexpr size_t kLeastSteps = 3;

// A simulation that notes down what is called, or lets it be computed.
class Recorder final : public DryRun {
 public:
  // What is called before is not noted down.
  void count_in(StepCalls& calls) { counted_ = &calls; }
  // `stream` computes copies. It is no stream of a simulation.
  void compute(Stream& stream) { stream_ = &stream; }
  // Times what is computed from now on.
  void time_in(StepCalls& calls) { timed_ = &calls; }
  double timed_seconds() const { return timed_seconds_; }

  void launch(StreamId, const KernelCall& call) override { note(call); }
  void copy(StreamId, const TensorView& to, const ConstTensorView& from) override {
    const double bytes = number_of(to.num_bytes());
    note({.name = "copy",
          .dtype = DType::fp32,
          .cost = {.bytes_read = bytes, .bytes_written = bytes},
          .compute = [&] { copy_now(to, from); }});
  }

 private:
  void copy_now(const TensorView& to, const ConstTensorView& from) {
    ladder::copy(*stream_, to, from);
    if (to.dtype() != DType::int32) return;
    // No simulation reads batches. So many different tokens has a text of bytes.
    for (size_t i = 0; i < to.num_elements(); ++i) {
      to.as<int32_t>()[i] = static_cast<int32_t>(i * 7919 % 128);
    }
  }
  void note(const KernelCall& call) {
    if (counted_ != nullptr) {
      StepCall& step_call = (*counted_)[key_of(call)];
      step_call.call = call;
      step_call.call.arguments = {};
      step_call.call.compute = {};
      ++step_call.count;
    }
    if (stream_ == nullptr) return;
    set_current(nullptr);  // its clock would not go on
    const Time begin = Clock::now();
    call.compute();
    const double seconds = seconds_since(begin);
    set_current(this);
    if (timed_ == nullptr) return;
    (*timed_)[key_of(call)].seconds.push_back(seconds);
    timed_seconds_ += seconds;
  }

  StepCalls* counted_ = nullptr;
  StepCalls* timed_ = nullptr;
  Stream* stream_ = nullptr;
  double timed_seconds_ = 0;
};

// Memory that has been written. Before, all pages are the same zeros, which a cache holds.
class WrittenMemory final : public MemorySource {
 public:
  void* allocate(size_t bytes) override {
    void* const pointer = source_.allocate(bytes);
    if (pointer != nullptr) std::memset(pointer, 0, bytes);
    return pointer;
  }
  void release(void* pointer, size_t bytes) noexcept override { source_.release(pointer, bytes); }

 private:
  MemorySource& source_ = memory_of(DeviceType::cpu);
};

// Calls steps(recorder, trainer) with a trainer that is alone.
template <class Steps>
void rehearse(const LessonRun& run, size_t rank, size_t num_ranks, MemorySource& memory,
              Steps steps) {
  const auto found = lesson_programs().find(run.lesson);
  if (found == lesson_programs().end()) {
    throw UserError(concat("--lesson ", quoted_name(run.lesson),
                           ": expected one of 01_single_gpu to 10_mixed_precision"));
  }
  const Program program = found->second();
  if (!program.lesson.is_distributed && num_ranks > 1) {
    throw UserError(concat("--lesson ", run.lesson, ": it runs on one rank"));
  }
  std::vector<std::string> flags = {"--device", "virtual", "--cluster", "laptop"};
  if (program.lesson.is_distributed) flags.insert(flags.end(), {"--ranks", concat(num_ranks)});
  flags.insert(flags.end(), run.flags.begin(), run.flags.end());
  const RunConfig config = resolve_flags(program, flags, num_ranks);
  const ProcessGrid grid = program.grid(num_ranks, rank);
  const Corpus corpus = Corpus::king_james();
  Recorder recorder;  // before all that has streams
  Memory device(config.device, "device", 0, memory), host(DeviceType::cpu, "host", 0, memory);
  Stream stream(config.device);
  Communicator world(std::make_unique<Unconnected>(grid, config.device));
  GridGroups groups(world, grid);
  const RankContext ranks = {grid, world, &groups, &memory};
  const std::unique_ptr<Trainer> trainer = program.planned(config, grid)
                                               .make({.config = config,
                                                      .corpus = corpus,
                                                      .device_memory = device,
                                                      .host_memory = host,
                                                      .stream = stream,
                                                      .ranks = &ranks});
  steps(recorder, *trainer);
}

}  // namespace

void add_calls(const LessonRun& run, size_t num_ranks, StepCalls& calls) {
  LazyMemory memory;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    rehearse(run, rank, num_ranks, memory, [&](Recorder& recorder, Trainer& trainer) {
      recorder.count_in(calls);
      trainer.step();
    });
  }
}

void time_calls(const LessonRun& run, size_t rank, size_t num_ranks, StepCalls& calls,
                double least_seconds) {
  Stream stream(DeviceType::cpu);
  WrittenMemory memory;
  rehearse(run, rank, num_ranks, memory, [&](Recorder& recorder, Trainer& trainer) {
    recorder.compute(stream);
    trainer.initialize();
    trainer.step();  // fills caches, and lets libraries prepare
    recorder.time_in(calls);
    for (size_t i = 0; i < kLeastSteps || recorder.timed_seconds() < least_seconds; ++i) {
      trainer.step();
    }
  });
}

}  // namespace ladder
