#include "kernels/runtime/threads.h"

#include <omp.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "kernels/runtime/check.h"
#include "kernels/runtime/control_group.h"

namespace ladder {
namespace {

// Returns how many cores' time the group may use, at most `cores`. Its limit is so many
// microseconds in each period: "150000 100000" in one file, or a file for each number. Without a
// limit the first is "max" or -1.
int cores_of(const ControlGroup& group, int cores) {
  int64_t time = 0, period = 0;
  if (group.version == 1) {
    std::ifstream(group.folder + "/cpu.cfs_quota_us") >> time;
    std::ifstream(group.folder + "/cpu.cfs_period_us") >> period;
  } else {
    std::ifstream(group.folder + "/cpu.max") >> time >> period;
  }
  if (time <= 0 || period <= 0) return cores;
  return static_cast<int>(std::clamp<int64_t>(time / period, 1, cores));
}

}  // namespace

int num_available_cores(const std::string& root) {
  int cores = omp_get_num_procs();
  for (const ControlGroup& group : control_groups("cpu", root)) cores = cores_of(group, cores);
  return cores;
}

int default_num_threads(size_t num_processes) {
  const char* const given = std::getenv("OMP_NUM_THREADS");
  if (given == nullptr || *given == '\0') {
    return static_cast<int>(
        std::max<size_t>(1, static_cast<size_t>(num_available_cores()) / num_processes));
  }
  constexpr int kMost = 4096;
  const std::string_view text = given;
  int count = 0;
  const auto [stop, error] = std::from_chars(given, given + text.size(), count);
  if (error != std::errc() || (*stop != '\0' && *stop != ',') || count < 1 || count > kMost) {
    throw UserError(
        concat("OMP_NUM_THREADS: '", text, "' is not a whole number from 1 to ", kMost));
  }
  return count;
}

void set_num_threads(int count) { omp_set_num_threads(count); }

}  // namespace ladder
