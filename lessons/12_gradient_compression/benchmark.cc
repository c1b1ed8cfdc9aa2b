// An all_reduce of gradients over a slow network, in fp32 and encoded:
//   bazel build //lessons/12_gradient_compression:benchmark
//   tools/mpirun -n 2 bazel-bin/lessons/12_gradient_compression/benchmark --size 500MB
//
// Ranks send messages, slowed down to --network-bandwidth. Each round times fp32 and each codec,
// one after the other. It prints the smallest times of the rounds and their ratio, and for each
// codec the break-even bandwidth: the one at which the time for the bytes that it saves is the time
// that it takes without a slow network. With a faster network fp32 wins.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <vector>

#include "common/comm/communicator.h"
#include "common/comm/compressed.h"
#include "common/comm/mpi_transport.h"
#include "common/io/version.h"
#include "kernels/elementwise.h"
#include "kernels/runtime/threads.h"

namespace ladder {
namespace {

struct Options {
  size_t bytes = 500'000'000, bandwidth = 1'000'000'000, block_size = 256;
  size_t rounds = 5;
  bool error_feedback = false;
};

Options parse(int argc, const char* const* argv) {
  Options options;
  CLI::App app("An all_reduce over a slow network, in fp32 and encoded");
  const auto size = CLI::AsSizeValue(true) & CLI::Range(size_t{4096}, size_t{1} << 40);
  app.add_option("--size", options.bytes, "Bytes of fp32 [500MB]")->transform(size);
  app.add_option("--network-bandwidth", options.bandwidth, "Bytes a second and rank [1GB]")
      ->transform(size);
  app.add_option("--rounds", options.rounds, "[5]")->check(CLI::Range(1, 1000));
  app.add_flag("--error-feedback", options.error_feedback, "");
  add_version_flag(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  return options;
}

// The same sums over a group with a slow network, or without.
class Bench {
 public:
  Bench(const MpiWorld& world, const Options& options, bool is_slow)
      : ranks_(MpiTransport::make_world(world, nullptr, mpi_options(options, is_slow))),
        gradients_(memory_, Category::gradients, DType::fp32, {options.bytes / sizeof(float)}),
        buffer_(memory_, Category::gradients, DType::fp32, gradients_.shape()),
        held_(memory_, Category::optimizer, DType::fp32, gradients_.shape()),
        owned_(memory_, Category::optimizer, DType::fp32,
               {gradients_.shape()[0] / ranks_.size() + 2 * options.block_size}) {
    fill_normal(stream_, gradients_, ranks_.rank(), 0, 1e-3);
    const size_t n = gradients_.shape()[0];
    for (size_t i = 0; i < kNumFormats; ++i) {
      const Codec codec = {static_cast<Format>(i), options.block_size};
      CompressedSum::Options of_sum = {.codec = codec};
      const size_t own = CompressedSum::own_elements(codec, n, ranks_.size(), ranks_.rank());
      if (options.error_feedback) of_sum.sent = held_;
      if (options.error_feedback) of_sum.owned = owned_.view().rows(0, own);
      areas_.emplace_back(memory_, nullptr, codec, DType::fp32, n, ranks_.size());
      sums_.emplace_back(areas_.back(), buffer_, of_sum);
    }
  }

  // Returns the seconds of one sum, on the slowest rank. Format number kNumFormats is fp32.
  double seconds(size_t format) {
    // Sums of sums would grow until fp16 overflows, and blocks of NaN are encoded faster.
    copy(stream_, buffer_, gradients_);
    fill(stream_, held_, 0);
    fill(stream_, owned_, 0);
    ranks_.barrier();
    const Time begin = Clock::now();
    (format < kNumFormats ? ranks_.all_reduce(stream_, sums_[format], {})
                          : ranks_.all_reduce(stream_, buffer_, {}))
        .wait(stream_);
    double seconds = seconds_since(begin);
    const float* const sums = buffer_.view().as<float>();
    check(std::all_of(sums, sums + buffer_.shape()[0], [](float x) { return std::isfinite(x); }),
          "a sum is not finite");
    const TensorView view(&seconds, DType::fp64, DeviceType::cpu, {1});
    ranks_.all_reduce(stream_, view, {.reduction = Reduction::max}).wait(stream_);
    return seconds;
  }
  // Returns the bytes that a rank sends.
  double bytes(size_t format) const {
    const size_t n = buffer_.shape()[0];
    const size_t payload =
        format < kNumFormats ? CompressedSum::payload_bytes(sums_[format].codec(), n, ranks_.size())
                             : n * sizeof(float);
    return wire_bytes(Collective::all_reduce, ranks_.size(), payload);
  }
  bool is_first() const { return ranks_.rank() == 0; }

 private:
  static MpiOptions mpi_options(const Options& options, bool is_slow) {
    MpiOptions mpi;
    if (is_slow)
      mpi.network = std::make_shared<TokenBucket>(static_cast<double>(options.bandwidth));
    return mpi;
  }

  Communicator ranks_;
  Stream stream_{DeviceType::cpu};
  Memory memory_{DeviceType::cpu, "device", 0};
  Tensor gradients_, buffer_, held_, owned_;  // buffer_ is what is summed
  std::deque<CompressedAreas> areas_;
  std::deque<CompressedSum> sums_;
};

void run(const Options& options) {
  const MpiWorld world;
  set_num_threads(1);
  Bench slow(world, options, true), fast(world, options, false);
  std::vector<double> slowest(kNumFormats + 1, 1e30), fastest = slowest;
  for (size_t round = 0; round <= options.rounds; ++round) {  // the first one touches the memory
    for (size_t f = 0; f <= kNumFormats; ++f) {
      const double with = slow.seconds(f), without = fast.seconds(f);
      if (round == 0) continue;
      slowest[f] = std::min(slowest[f], with);
      fastest[f] = std::min(fastest[f], without);
    }
  }
  if (!slow.is_first()) return;
  std::printf("%-9s %12s %12s %12s %14s %16s\n", "", "bytes", "slow, ms", "fast, ms", "fp32 / slow",
              "break-even, GB/s");
  for (size_t f = kNumFormats + 1; f-- > 0;) {
    const double saved = slow.bytes(kNumFormats) - slow.bytes(f);
    const double costs = fastest[f] - fastest[kNumFormats];
    std::printf("%-9s %12.0f %12.1f %12.1f %14.2f ",
                f < kNumFormats ? std::string(name_of(static_cast<Format>(f))).c_str() : "fp32",
                slow.bytes(f), 1e3 * slowest[f], 1e3 * fastest[f],
                slowest[kNumFormats] / slowest[f]);
    costs > 0 ? std::printf("%16.2f\n", 1e-9 * saved / costs) : std::printf("%16s\n", "-");
  }
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  const ladder::Options options = ladder::parse(argc, argv);
  try {
    ladder::run(options);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    ladder::MpiWorld::abort(1);
  }
}
