// Measures every kernel as a fraction of what the machine can do, which is measured just before:
//   bazel run //kernels:benchmark -- --benchmark_filter=matmul [--device=cpu|cuda|emulator]
// `of_limit` is the fraction of the multiply-add rate (matmul, attention) or of the memory
// bandwidth (all others; where the data fit into a cache it may exceed 1): see
// kernels/machine_limits.h. In bf16 (`/bf16`) the rate is that of a GPU's tensor cores; on the CPU
// it is fp32's too, which one with AVX512_BF16 exceeds. Shapes are those of GPT-2 124M at B = 4,
// T = 256. On the CPU the argument after a name is the number of threads. A GPU needs more to be
// busy: it also runs B = 16, T = 1024, and its products in TF32; calls are timed by its own clock,
// many in a row.
#include <benchmark/benchmark.h>

#include "kernels/benchmark_cases.h"
#include "kernels/benchmark_device.h"
#include "kernels/matmul.h"
#include "kernels/runtime/threads.h"

namespace ladder {
namespace {

constexpr int kCallsInARow = 20;  // on a GPU: hides the launches of all but the first

// Times what `prepare` of the case returns.
void run_case(benchmark::State& state, const BenchmarkCase& c, DeviceType device) {
  if (device == DeviceType::cpu) set_num_threads(static_cast<int>(state.range(0)));
  const int calls = device == DeviceType::cuda ? kCallsInARow : 1;
  BenchmarkTensors tensors(device);
  const double limit = measure(c.limit, tensors.stream);
  set_tf32(c.limit == Limit::tf32);
  const auto [kernel, cost] = c.prepare(tensors);
  kernel();
  tensors.stream.synchronize();
  double seconds = 0;
  for (auto _ : state) {
    const double one = seconds_of(tensors.stream, calls, kernel) / calls;
    state.SetIterationTime(one);
    seconds += one;
  }
  set_tf32(false);
  const double work = c.limit == Limit::bandwidth ? cost.bytes() : cost.product_flops;
  const double rate = work * static_cast<double>(state.iterations()) / seconds;
  state.counters[c.limit == Limit::bandwidth ? "GB/s" : "GFLOP/s"] = 1e-9 * rate;
  state.counters["of_limit"] = rate / limit;
}

void add(BenchmarkCase c, const std::string& suffix, DeviceType device) {
  if (device == DeviceType::cuda && c.limit == Limit::fp32 && c.name.ends_with("/bf16")) {
    c.limit = Limit::bf16;
  }
  auto* const registered = benchmark::RegisterBenchmark(
      (c.name + suffix).c_str(), [=](benchmark::State& state) { run_case(state, c, device); });
  registered->UseManualTime()->Unit(benchmark::kMicrosecond);
  if (device == DeviceType::cuda) registered->MinTime(0.2 / kCallsInARow);
  if (device != DeviceType::cpu) return;
  for (int threads = 1; threads <= num_available_cores(); threads *= 2) registered->Arg(threads);
}

void add_all(DeviceType device) {
  for (const BenchmarkCase& c : benchmark_cases(device, 4, 256, size_t{16} << 20))
    add(c, "", device);
  if (device != DeviceType::cuda) return;
  for (BenchmarkCase c : benchmark_cases(device, 16, 1024, size_t{128} << 20)) {
    add(c, "/B16_T1024", device);
    if (c.limit != Limit::fp32 || !c.name.starts_with("matmul/")) continue;
    if (c.name.ends_with("/bf16")) continue;
    c.limit = Limit::tf32;
    add(c, "/B16_T1024/tf32", device);
  }
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) { return ladder::run_benchmarks(argc, argv, ladder::add_all); }
