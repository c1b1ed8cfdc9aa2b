#include "kernels/benchmark_device.h"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <string_view>

#include "kernels/runtime/check.h"
#include "kernels/runtime/gpu.h"

namespace ladder {
namespace {

// The value of --device, which is taken out of the arguments.
std::string take_device(int& argc, char** argv) {
  constexpr std::string_view kFlag = "--device=";
  std::string device = "cpu";
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kFlag)) {
      device = argument.substr(kFlag.size());
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return device;
}

}  // namespace

int run_benchmarks(int argc, char** argv, void (*add)(DeviceType device)) {
  try {
    const DeviceType device = device_named(take_device(argc, argv));
    select_device(device, 0);
    require_code_for(device);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::AddCustomContext("device", description_of(device));
    add(device);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  } catch (const UserError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

}  // namespace ladder
