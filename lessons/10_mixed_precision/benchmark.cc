// Compares a training step of GPT-2 124M in bf16 or fp16 with the same step in fp32, and in bf16
// with its floor (common/train/bench/step_floor.h). All take turns in one run:
//   bazel run //lessons/10_mixed_precision:benchmark -- --benchmark_filter=T256/bf16/1/
//
// The steps are this lesson's on one rank, because only this lesson has fp16; lesson 01 does the
// same in bf16. The time shown is that of a step in bf16 or fp16. The counters are tokens/s from
// the median of the steps, also in fp32; `speed`, the median over the iterations of fp32's time
// divided by the step's; and `of_floor`, the median of the step's time divided by the floor's. The
// number after the dtype is the number of threads.
#include <benchmark/benchmark.h>

#include <optional>
#include <vector>

#include "common/comm/communicator.h"
#include "common/comm/one_rank.h"
#include "common/train/bench/step_floor.h"
#include "kernels/benchmark_device.h"
#include "kernels/runtime/median.h"
#include "kernels/runtime/threads.h"
#include "lessons/10_mixed_precision/trainer.h"

namespace ladder {
namespace {

constexpr size_t kBatch = 4;

// One rank that trains in one precision.
class Training {
 public:
  Training(size_t tokens, DType dtype) : config_(configure(tokens, dtype)) {
    trainer_.state().initialize();
  }

  const RunConfig& config() const { return config_; }
  double step_seconds() {
    return seconds_of([&] { trainer_.step(); });
  }

 private:
  static RunConfig configure(size_t tokens, DType dtype) {
    RunConfig config;
    config.model = {12, 12, 768, 50257, tokens};
    config.dtype = dtype;
    config.global_batch_size = config.micro_batch_size = kBatch;
    return config;
  }

  RunConfig config_;
  ProcessGrid grid_;
  Corpus corpus_ = Corpus::king_james();
  Memory device_{DeviceType::cpu, "device", 0}, host_{DeviceType::cpu, "host", 0};
  Stream stream_{DeviceType::cpu};
  Communicator world_{std::make_unique<OneRank>()};
  RankContext ranks_ = {grid_, world_};
  MixedPrecisionTrainer trainer_{{config_, corpus_, device_, host_, stream_, &ranks_}, {}};
};

void step_benchmark(benchmark::State& state, size_t tokens, DType dtype) {
  set_num_threads(static_cast<int>(state.range(0)));
  Training fp32(tokens, DType::fp32), low(tokens, dtype);
  std::optional<StepFloor> floor;  // fp16 has no floor, since no CPU here can multiply it
  if (dtype == DType::bf16) floor.emplace(low.config().model, dtype, kBatch * tokens);
  std::vector<double> floors, base, steps, speed, ratios;
  const auto round = [&] {
    if (floor) floors.push_back(seconds_of([&] { floor->run(); }));
    base.push_back(fp32.step_seconds());
    steps.push_back(low.step_seconds());
    speed.push_back(base.back() / steps.back());
    if (floor) ratios.push_back(steps.back() / floors.back());
  };
  round();  // touches the memory
  for (auto* values : {&floors, &base, &steps, &speed, &ratios}) values->clear();
  for (auto _ : state) {
    round();
    state.SetIterationTime(steps.back());
  }
  const double num_tokens = static_cast<double>(kBatch * tokens);
  state.counters["tokens/s"] = num_tokens / median(steps);
  state.counters["fp32_tokens/s"] = num_tokens / median(base);
  state.counters["speed"] = median(speed);
  if (!floor) return;
  state.counters["floor_ms"] = 1e3 * median(floors);
  state.counters["of_floor"] = median(ratios);
}

void add_all(DeviceType device) {
  if (device != DeviceType::cpu) throw UserError("this benchmark is for --device=cpu");
  const auto add = [](const char* name, size_t tokens, DType dtype, int iterations) {
    auto* const registered = benchmark::RegisterBenchmark(
        name, [=](benchmark::State& state) { step_benchmark(state, tokens, dtype); });
    registered->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(iterations);
    for (int threads = 1; threads <= num_available_cores(); threads *= 2) registered->Arg(threads);
  };
  add("gpt2_124M/B4_T64/bf16", 64, DType::bf16, 7);
  add("gpt2_124M/B4_T64/fp16", 64, DType::fp16, 2);
  add("gpt2_124M/B4_T256/bf16", 256, DType::bf16, 3);
  add("gpt2_124M/B4_T256/fp16", 256, DType::fp16, 1);
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) { return ladder::run_benchmarks(argc, argv, ladder::add_all); }
