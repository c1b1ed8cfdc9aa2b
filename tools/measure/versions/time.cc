// Times the versions on a GPU, by its own clock.
#include <algorithm>

#include "common/io/text.h"
#include "kernels/machine_limits.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/median.h"
#include "tools/measure/versions/bench.h"

namespace ladder::versions {
namespace {

// The median of so many batches of calls; a batch takes about so long.
constexpr int kBatches = 5;
constexpr double kBatchSeconds = 0.02;

double seconds_of_rung(const Rung& rung, Stream& stream) {
  const auto call = [&] { rung.run(stream); };
  call();  // loads the kernel
  const double once = seconds_of(stream, 1, call);
  const int calls = std::clamp(static_cast<int>(kBatchSeconds / once), 1, 200);
  std::vector<double> times;
  for (int i = 0; i < kBatches; ++i) times.push_back(seconds_of(stream, calls, call) / calls);
  return median(times);
}

}  // namespace

struct Bench::State {};

Bench::Bench() = default;
Bench::~Bench() = default;

void Bench::add_flags(CLI::App& /*app*/) {}
void Bench::begin() {}
bool Bench::results_are_whole() const { return true; }

std::string Bench::table(const std::string& title, std::span<const Rung> rungs, Stream& stream) {
  std::vector<double> seconds;
  for (const Rung& rung : rungs) seconds.push_back(seconds_of_rung(rung, stream));
  std::string text =
      title + "\n" +
      format("%12s %9s %9s %7s  %s\n", "us", "TFLOP/s", "of last", "error", "version");
  for (size_t i = 0; i < rungs.size(); ++i) {
    const Rung& rung = rungs[i];
    text += format("%12.1f %9.1f %9.3f %7.2f  %s: %s\n", 1e6 * seconds[i],
                   1e-12 * rung.flops / seconds[i], seconds.back() / seconds[i], rung.error,
                   rung.name.c_str(), rung.idea.c_str());
  }
  return text;
}

std::string Bench::legend() const {
  return "Measured: medians of 5. `of last` is the speed as a part of the last row's. `error` is "
         "the\nlargest one as a part of what rounding may do: right if at most 1.\n";
}

}  // namespace ladder::versions
