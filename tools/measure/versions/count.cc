// Counts what the versions do, on the emulator, and predicts how long that takes on a GPU.
#include <cstdio>
#include <optional>

#include "kernels/emulator/device_model.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/registers.h"
#include "tools/measure/roofline/gpu.h"
#include "tools/measure/versions/bench.h"

namespace ladder::versions {
namespace {

using emulator::Counts, emulator::Profile;

// What all kernels of a version do, one after the other.
struct Total {
  double seconds = 0, longest = 0, occupancy = 0;
  std::string_view bound;  // of the kernel that takes longest
  Counts counts;
};

Total total_of(std::span<const Profile> profiles, const Cluster& gpu, DType dtype) {
  Total total;
  for (const Profile& profile : profiles) {
    const roofline::Time time = roofline::time_of(gpu, profile, dtype);
    total.seconds += time.seconds;
    total.counts += profile.counts;
    if (time.seconds <= total.longest) continue;
    total.longest = time.seconds;
    total.bound = time.bound;
    total.occupancy = roofline::most_occupancy(gpu, profile);
  }
  return total;
}

template <class... Args>
std::string print(const char* format, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

std::string line_of(const Rung& rung, const Total& total) {
  const Counts& counts = total.counts;
  const double sector = number_of(emulator::kSectorBytes);
  std::string text = print("%12.1f %9.1f  %-13s", 1e6 * total.seconds,
                           1e-12 * rung.flops / total.seconds, std::string(total.bound).c_str());
  if (counts.instructions == 0) {  // cuBLAS: nobody counts what is in it
    text += print(" %9s %9s %8s %9s %9s %8s %6s", "-", "-", "-", "-", "-", "-", "-");
  } else {
    text += print(" %9.1f %9.1f %8.1f %9.1f %9.1f %8.2f %6.0f", counts.global_sectors * sector / 1e6,
                  counts.memory_sectors * sector / 1e6, counts.instructions / 1e6,
                  counts.fused_flops / 1e9, counts.tensor_flops / 1e9,
                  counts.shared_least_cycles > 0 ? counts.shared_cycles / counts.shared_least_cycles
                                                 : 0,
                  100 * total.occupancy);
  }
  const std::string error = rung.error < 0 ? "-" : print("%.2f", rung.error);
  return text + print(" %7s  %s: %s\n", error.c_str(), rung.name.c_str(), rung.idea.c_str());
}

}  // namespace

struct Bench::State {
  std::string gpu_name = "h100";
  size_t most_blocks = 4;
  Cluster gpu;
  std::optional<emulator::WithDeviceModel> limits;
  std::optional<emulator::SampledLaunches> sampled;
};

Bench::Bench() : state_(std::make_unique<State>()) {}
Bench::~Bench() = default;

void Bench::add_flags(CLI::App& app) {
  app.add_option("--gpu", state_->gpu_name,
                 "GPU to predict for: a100-40, a100-80, h100 or h200 [h100]");
  app.add_option("--blocks", state_->most_blocks,
                 "thread blocks of a launch that the emulator runs, for the counts [4]");
}

void Bench::begin() {
  if (state_->most_blocks == 0) throw UserError("--blocks must be positive");
  state_->gpu = roofline::read_gpu(state_->gpu_name);
  state_->limits.emplace(state_->gpu.emulated);
  state_->sampled.emplace(state_->most_blocks);
}

bool Bench::results_are_whole() const { return false; }

std::string Bench::table(std::span<const Rung> rungs, Stream& stream) {
  std::string text =
      print("%12s %9s  %-13s %9s %9s %8s %9s %9s %8s %6s %7s  %s\n", "us", "TFLOP/s", "bound by",
            "MB asked", "MB moved", "accesses", "fma", "mma", "conflict", "warps", "error",
            "version");
  for (const Rung& rung : rungs) {
    emulator::Profiler profiler(roofline::cache_of(state_->gpu));
    rung.run(stream);
    stream.synchronize();
    text += line_of(rung, total_of(profiler.take(), state_->gpu, rung.dtype));
  }
  return text;
}

std::string Bench::legend() const {
  return concat(
      "Predicted for one ", state_->gpu.name,
      ", not measured. Counted in some thread blocks, for all: `MB\nasked` is what warps ask of the "
      "cache that all multiprocessors share, in sectors of 32 bytes,\n`MB moved` what comes from "
      "memory; `accesses` are millions of instructions of warps that load or\nstore; `fma` and "
      "`mma` are GFLOP in multiply-adds and on tensor cores; `conflict` the cycles of\nshared "
      "memory over those without bank conflicts; `warps` the percentage of the warps that a\n"
      "multiprocessor can hold and that it has. `error`, on a small shape, is the largest one as a "
      "part\nof what rounding may do: right if at most 1.\n");
}

}  // namespace ladder::versions
