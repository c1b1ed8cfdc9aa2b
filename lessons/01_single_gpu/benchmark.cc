// A training step against its floor (common/train/step_floor.h), interleaved in one run:
//   bazel run //lessons/01_single_gpu:benchmark
// The argument after a name is the number of threads; `floor_ms` is the median of the floors,
// `of_floor` the median of step / floor over the iterations.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "common/train/step_floor.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/threads.h"
#include "lessons/01_single_gpu/trainer.h"

namespace ladder {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Body>
double seconds_of(Body body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return seconds_since(begin);
}

void step_benchmark(benchmark::State& state, const Gpt2Config& model, size_t batch) {
  set_num_threads(static_cast<int>(state.range(0)));
  RunConfig config;
  config.model = model;
  config.global_batch_size = config.micro_batch_size = batch;
  const ProcessGrid grid;
  const Corpus corpus = Corpus::king_james();
  Memory device(config.device, "device", 0), host(DeviceType::cpu, "host", 0);
  Stream stream(config.device);
  SingleGpuTrainer trainer({config, grid, corpus, device, host, stream}, {});
  StepFloor floor(model, config.dtype, batch * model.sequence_length);
  floor.run();
  trainer.step();
  std::vector<double> floors, ratios;
  for (auto _ : state) {
    floors.push_back(seconds_of([&] { floor.run(); }));
    const double step = seconds_of([&] { trainer.step(); });
    ratios.push_back(step / floors.back());
    state.SetIterationTime(step);
  }
  state.counters["floor_ms"] = 1e3 * median(floors);
  state.counters["of_floor"] = median(ratios);
}

void add(const char* name, const Gpt2Config& model, size_t batch, int iterations) {
  auto* const registered = benchmark::RegisterBenchmark(
      name, [=](benchmark::State& state) { step_benchmark(state, model, batch); });
  registered->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(iterations);
  for (int threads = 1; threads <= num_available_cores(); threads *= 2) registered->Arg(threads);
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  ladder::add("small/B8_T64", {4, 4, 128, 256, 64}, 8, 100);
  ladder::add("gpt2_124M/B4_T64", {12, 12, 768, 50257, 64}, 4, 7);
  ladder::add("gpt2_124M/B4_T256", {12, 12, 768, 50257, 256}, 4, 5);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
