// Counts what the versions do, on the emulator, and predicts how long that takes on a GPU.
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "common/io/text.h"
#include "kernels/emulator/device_model.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/registers.h"
#include "tools/measure/roofline/gpu.h"
#include "tools/measure/roofline/table.h"
#include "tools/measure/versions/bench.h"

namespace ladder::versions {
namespace {

using emulator::Counts, roofline::Row;

// Returns what all kernels of a version do, one after the other.
Row total_of(std::span<const emulator::Profile> profiles, const Cluster& gpu, DType dtype) {
  Row total;
  for (const emulator::Profile& profile : profiles) total.add(profile, gpu, dtype);
  return total;
}

// Microseconds by the title of the table and the version.
using Measured = std::map<std::pair<std::string, std::string>, double>;

// Reads the tables that time.cc prints. Throws a UserError if there is none.
Measured read_measured(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UserError(concat("--measured ", path, ": cannot be read"));
  Measured measured;
  std::string title;
  for (std::string line; std::getline(file, line);) {
    double us = 0, rate = 0, part = 0, error = 0;
    std::string name;
    std::istringstream fields(line);
    if (fields >> us >> rate >> part >> error && std::getline(fields >> std::ws, name, ':')) {
      measured[{title, name}] = us;
    } else if (line.find(" = ") != line.npos) {
      title = line;
    }
  }
  if (measured.empty()) throw UserError(concat("--measured ", path, ": there is no table in it"));
  return measured;
}

// Four digits, in a column.
std::string digits(double value) { return format(value < 1000 ? "%10.4g" : "%10.0f", value); }

std::string line_of(const Rung& rung, const Row& total) {
  const Counts& counts = total.counts;
  const double sector = number_of(emulator::kSectorBytes);
  std::string text = format("%12.1f %9.1f  %-13s", 1e6 * total.seconds,
                            1e-12 * rung.flops / total.seconds, std::string(total.bound).c_str());
  if (counts.instructions == 0) {  // cuBLAS: nobody counts what is in it
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
    text += format(" %5.0f", 100 * total.occupancy);
  }
  const std::string error = rung.error < 0 ? "-" : format("%.2f", rung.error);
  return text + format(" %6s  %s: %s\n", error.c_str(), rung.name.c_str(), rung.idea.c_str());
}

}  // namespace

struct Bench::State {
  std::string gpu_name = "h100", measured_path;
  size_t most_blocks = 32;
  Cluster gpu;
  Measured measured;
  std::optional<emulator::WithDeviceModel> limits;
  std::optional<emulator::SampledLaunches> sampled;
};

Bench::Bench() : state_(std::make_unique<State>()) {}
Bench::~Bench() = default;

void Bench::add_flags(CLI::App& app) {
  app.add_option("--gpu", state_->gpu_name,
                 "GPU to predict for: a100-40, a100-80, h100 or h200 [h100]");
  app.add_option("--measured", state_->measured_path,
                 "file with what this program printed with --config=cuda on that GPU");
  app.add_option("--blocks", state_->most_blocks,
                 "thread blocks of a launch that the emulator runs, for the counts [32]");
}

void Bench::begin() {
  if (state_->most_blocks == 0) throw UserError("--blocks must be positive");
  state_->gpu = roofline::read_gpu(state_->gpu_name);
  if (!state_->measured_path.empty()) state_->measured = read_measured(state_->measured_path);
  state_->limits.emplace(state_->gpu.emulated);
  state_->sampled.emplace(state_->most_blocks);
}

bool Bench::results_are_whole() const { return false; }

std::string Bench::table(const std::string& title, std::span<const Rung> rungs, Stream& stream) {
  const bool is_measured = !state_->measured.empty();
  std::string text = title + "\n" + (is_measured ? format("%12s", "us measured") : "");
  text += format("%12s %9s  %-13s%10s%10s%10s%10s%10s %8s %5s %6s  %s\n", "us", "TFLOP/s",
                 "bound by", "MB asked", "MB moved", "accesses", "fma", "mma", "conflict", "warps",
                 "error", "version");
  for (const Rung& rung : rungs) {
    emulator::Profiler profiler(roofline::cache_of(state_->gpu));
    rung.run(stream);
    stream.synchronize();
    if (is_measured) {
      const auto found = state_->measured.find({title, rung.name});
      text +=
          found == state_->measured.end() ? format("%12s", "-") : format("%12.1f", found->second);
    }
    text += line_of(rung, total_of(profiler.take(), state_->gpu, rung.dtype));
  }
  return text;
}

std::string Bench::legend() const {
  return concat(
      "Predicted for one ", state_->gpu.name,
      ", not measured. Counted in some thread blocks, for all: `MB\nasked` is what warps ask of "
      "the "
      "cache that all multiprocessors share, in sectors of 32 bytes,\n`MB moved` what comes from "
      "memory; `accesses` are millions of instructions of warps that load or\nstore; `fma` and "
      "`mma` are GFLOP in multiply-adds and on tensor cores; `conflict` the cycles of\nshared "
      "memory over those without bank conflicts; `warps` the percentage of the warps that a\n"
      "multiprocessor can hold and that it has. `error`, on a small shape, is the largest one as a "
      "part\nof what rounding may do: right if at most 1.\n");
}

}  // namespace ladder::versions
