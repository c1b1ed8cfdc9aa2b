// Counts what the versions do, on the emulator.
#include <algorithm>
#include <optional>

#include "common/io/text.h"
#include "kernels/emulator/device_model.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/profiler/occupancy.h"
#include "kernels/emulator/profiler/profiler.h"
#include "tools/measure/versions/bench.h"

namespace ladder::versions {
namespace {

using emulator::Counts, emulator::DeviceModel, emulator::Profile;

// Returns the occupancy of the launch that asks for most.
double occupancy_of(const std::vector<Profile>& launches, const DeviceModel& gpu) {
  const auto most = std::ranges::max_element(
      launches, {}, [](const Profile& launch) { return launch.counts.global_sectors; });
  return most == launches.end() ? 0 : emulator::most_occupancy(gpu, *most);
}

// Four digits, in a column.
std::string digits(double value) { return format(value < 1000 ? "%10.4g" : "%10.0f", value); }

std::string line_of(const Rung& rung, const std::vector<Profile>& launches,
                    const DeviceModel& gpu) {
  Counts counts;
  for (const Profile& launch : launches) counts += launch.counts;
  const double sector = number_of(emulator::kSectorBytes);
  std::string text;
  if (launches.empty()) {  // cuBLAS: nobody counts what is in it
    for (int i = 0; i < 5; ++i) text += format("%10s", "-");
    text += format(" %8s %5s", "-", "-");
  } else {
    const double least = counts.shared_least_cycles;
    for (const double count :
         {1e-6 * sector * counts.global_sectors, 1e-6 * sector * counts.memory_sectors,
          1e-6 * counts.instructions, 1e-9 * counts.fused_flops, 1e-9 * counts.tensor_flops}) {
      text += digits(count);
    }
    text += least > 0 ? format(" %8.2f", counts.shared_cycles / least) : format(" %8s", "-");
    text += format(" %5.0f", 100 * occupancy_of(launches, gpu));
  }
  const std::string error = rung.error < 0 ? "-" : format("%.2f", rung.error);
  return text + format(" %6s  %s: %s\n", error.c_str(), rung.name.c_str(), rung.idea.c_str());
}

}  // namespace

struct Bench::State {
  std::string gpu = "h100";
  size_t most_blocks = 32;
  std::optional<emulator::WithDeviceModel> limits;
  std::optional<emulator::SampledLaunches> sampled;
};

Bench::Bench() : state_(std::make_unique<State>()) {}
Bench::~Bench() = default;

void Bench::add_flags(CLI::App& app) {
  app.add_option("--gpu", state_->gpu, "GPU whose cache and registers count: a100 or h100 [h100]");
  app.add_option("--blocks", state_->most_blocks,
                 "thread blocks of a launch that the emulator runs, for the counts [32]");
}

void Bench::begin() {
  if (state_->most_blocks == 0) throw UserError("--blocks must be positive");
  if (state_->gpu != "a100" && state_->gpu != "h100") {
    throw UserError(concat("--gpu ", state_->gpu, ": expected a100 or h100"));
  }
  state_->limits.emplace(state_->gpu);
  state_->sampled.emplace(state_->most_blocks);
}

bool Bench::results_are_whole() const { return false; }

std::string Bench::table(const std::string& title, std::span<const Rung> rungs, Stream& stream) {
  const DeviceModel& gpu = emulator::device_model();
  std::string text = title + "\n" +
                     format("%10s%10s%10s%10s%10s %8s %5s %6s  %s\n", "MB asked", "MB moved",
                            "accesses", "fma", "mma", "conflict", "warps", "error", "version");
  for (const Rung& rung : rungs) {
    emulator::Profiler profiler(emulator::cache_of(gpu));
    rung.run(stream);
    stream.synchronize();
    text += line_of(rung, profiler.take(), gpu);
  }
  return text;
}

std::string Bench::legend() const {
  return "Counted in some thread blocks, for all: `MB asked` is what warps ask of the cache that\n"
         "all multiprocessors share, in sectors of 32 bytes, `MB moved` what comes from memory\n"
         "or goes there; `accesses` are millions of instructions of warps that load or store;\n"
         "`fma` and `mma` are GFLOP in multiply-adds and on tensor cores; `conflict` the cycles\n"
         "of shared memory over those without bank conflicts; `warps` the percentage of the\n"
         "warps that a multiprocessor can hold and that it has, in the kernel that asks for\n"
         "most. `error`, on a small shape, is the largest one as a part of what rounding may do:\n"
         "right if at most 1.\n";
}

}  // namespace ladder::versions
