// A training step against its floor (common/train/bench/step_floor.h), in one run:
//   bazel run //lessons/01_single_gpu:benchmark [-- --device=cpu|cuda|emulator]
// `floor_ms` is the median of the floors, `of_floor` the median of step / floor. On the CPU
// floor and step take turns; the argument after a name is the number of threads. On a GPU all
// floors come first, and both use TF32 where a name says so.
#include <benchmark/benchmark.h>

#include <vector>

#include "common/train/bench/step_floor.h"
#include "kernels/benchmark_device.h"
#include "kernels/matmul.h"
#include "kernels/runtime/median.h"
#include "kernels/runtime/threads.h"
#include "lessons/01_single_gpu/trainer.h"

namespace ladder {
namespace {

struct Setting {
  ModelConfig model;
  size_t batch;
  DeviceType device;
  bool tf32 = false;
  DType dtype = DType::fp32;
  bool round_logits = false;
};

constexpr int kFloorsOfGpu = 20, kWarmUpsOfGpu = 10;

void step_benchmark(benchmark::State& state, const Setting& setting) {
  if (setting.device == DeviceType::cpu) set_num_threads(static_cast<int>(state.range(0)));
  set_tf32(setting.tf32);
  RunConfig config;
  config.model = setting.model;
  config.device = setting.device;
  config.dtype = setting.dtype;
  config.round_logits = setting.round_logits;
  config.global_batch_size = config.micro_batch_size = setting.batch;
  const Corpus corpus = Corpus::king_james();
  Memory device(config.device, "device", 0);
  Memory host(DeviceType::cpu, "host", 0, host_memory_for(config.device));
  Stream stream(config.device);
  SingleGpuTrainer trainer({config, corpus, device, host, stream}, {});
  trainer.state().initialize();
  StepFloor floor(config.model, config.dtype, config.tokens_per_step(), config.device);
  const auto step = [&] {
    trainer.step();
    stream.synchronize();
  };
  std::vector<double> floors, steps, ratios;
  const auto run_floor = [&] { floors.push_back(seconds_of([&] { floor.run(); })); };
  floor.run();
  // A GPU lowers its clock when it needs too much power, so what ran before a step changes its
  // time: steps follow on steps here, as in training.
  const bool in_turns = setting.device != DeviceType::cuda;
  for (int i = 0; !in_turns && i < kFloorsOfGpu; ++i) run_floor();
  for (int i = 0; i < (in_turns ? 1 : kWarmUpsOfGpu); ++i) step();
  for (auto _ : state) {
    if (in_turns) run_floor();
    steps.push_back(seconds_of(step));
    ratios.push_back(steps.back() / (in_turns ? floors.back() : median(floors)));
    state.SetIterationTime(steps.back());
  }
  set_tf32(false);
  state.counters["floor_ms"] = 1e3 * median(floors);
  state.counters["of_floor"] = median(ratios);
  state.counters["tokens/s"] = static_cast<double>(config.tokens_per_step()) / median(steps);
}

void add(const char* name, const Setting& setting, int iterations) {
  auto* const registered = benchmark::RegisterBenchmark(
      name, [=](benchmark::State& state) { step_benchmark(state, setting); });
  registered->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(iterations);
  if (setting.device != DeviceType::cpu) return;
  for (int threads = 1; threads <= num_available_cores(); threads *= 2) registered->Arg(threads);
}

void add_all(DeviceType device) {
  const ModelConfig small = {4, 4, 128, 256, 64};
  const auto gpt2 = [](size_t sequence_length) {
    return ModelConfig{12, 12, 768, 50257, sequence_length};
  };
  const auto smollm2 = [](size_t sequence_length) {
    ModelConfig config = find_preset("smollm2-135m").config;
    config.sequence_length = sequence_length;
    return config;
  };
  if (device == DeviceType::cuda) {
    add("gpt2_124M/B4_T1024", {gpt2(1024), 4, device}, 20);
    add("gpt2_124M/B4_T1024/tf32", {gpt2(1024), 4, device, true}, 20);
    add("gpt2_124M/B16_T1024", {gpt2(1024), 16, device}, 10);
    add("gpt2_124M/B16_T1024/tf32", {gpt2(1024), 16, device, true}, 10);
    add("gpt2_124M/B16_T1024/bf16", {gpt2(1024), 16, device, false, DType::bf16}, 20);
    add("gpt2_124M/B16_T1024/bf16/round_logits", {gpt2(1024), 16, device, false, DType::bf16, true},
        20);
    add("gpt2_124M/B32_T1024/bf16", {gpt2(1024), 32, device, false, DType::bf16}, 20);
    add("smollm2_135M/B16_T1024/bf16", {smollm2(1024), 16, device, false, DType::bf16}, 20);
    return;
  }
  add("small/B8_T64", {small, 8, device}, device == DeviceType::cpu ? 100 : 1);
  if (device != DeviceType::cpu) return;  // the emulator would take hours
  add("gpt2_124M/B4_T64", {gpt2(64), 4, device}, 7);
  add("gpt2_124M/B4_T256", {gpt2(256), 4, device}, 5);
  add("smollm2_135M/B4_T256", {smollm2(256), 4, device}, 5);
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) { return ladder::run_benchmarks(argc, argv, ladder::add_all); }
