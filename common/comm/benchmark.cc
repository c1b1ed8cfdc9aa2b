// Collectives against the machine: bazel run //common/comm:benchmark -- --ranks 4 --size 64MiB
//
// Each round times, one after the other, a collective in registered memory, a private loop with the
// same reads and writes (the memory limit: no collective can be faster) and MPI's own collective in
// place. Time of a round: from the first rank's begin to the last rank's end, so that ranks which
// take turns on a core are counted in full. Printed: medians over the rounds, of times and of
// ratios within one round, so that what else the machine does in the meantime strikes all alike.
// Below some 10 MB the memory limit is that of a cache, and what is measured is latency.
// --no-shared-memory measures the same operations by messages, and --network-bandwidth slows these
// down. An operation that has a codec's name (int8, int8-feedback) is an all_reduce of encoded
// gradients; it pays where the network is slow.
#include <sys/statvfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "common/comm/contests.h"
#include "common/comm/mpi_transport.h"
#include "common/io/version.h"
#include "kernels/codec.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/median.h"
#include "kernels/runtime/threads.h"

namespace ladder {
namespace {

// Seconds per call, and how they compare.
struct Result {
  double ours, mpi;
  double part_of_limit;  // the limit's seconds by ours
  double best_part;      // the same of the fastest rounds: tells more on a busy machine
  double mpi_by_ours;
};

// Seconds on a clock that all processes of this machine share.
double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// Seconds per call, from the first rank's begin to the last rank's end.
double time_of(const CollectiveBench& bench, const std::function<void(size_t)>& way, size_t n,
               const std::function<void(size_t)>& prepare = {}) {
  const size_t calls = prepare ? 1 : std::clamp<size_t>((size_t{1} << 20) / n, 1, 500);
  if (prepare) prepare(n);
  bench.ranks.barrier();
  double begin = now();
  for (size_t call = 0; call < calls; ++call) way(n);
  double end = now();
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &begin, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD));
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &end, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
  return (end - begin) / static_cast<double>(calls);
}

Result measure(const CollectiveBench& bench, const Contest& contest, size_t n) {
  const size_t rounds = n < (size_t{100} << 18) ? 21 : 9;
  std::vector<double> ours, limit, mpi, part_of_limit, mpi_by_ours;
  for (size_t round = 0; round <= rounds; ++round) {
    const double limit_seconds = time_of(bench, contest.limit, n);
    const double our_seconds = time_of(bench, contest.ours, n, contest.prepare);
    if (round == 0) continue;  // touches the memory
    ours.push_back(our_seconds);
    limit.push_back(limit_seconds);
    part_of_limit.push_back(limit_seconds / our_seconds);
    if (round % 3 != 0) continue;  // MPI takes most of the time
    mpi.push_back(time_of(bench, contest.mpi, n));
    mpi_by_ours.push_back(mpi.back() / our_seconds);
  }
  const double best = std::ranges::min(limit) / std::ranges::min(ours);
  return {median(ours), median(mpi), median(part_of_limit), best, median(mpi_by_ours)};
}

std::string size_text(size_t bytes) {
  if (bytes < 1024) return concat(bytes, " B");
  if (bytes < 1000000) return concat(bytes / 1024, " KB");
  return bytes % 1000000 == 0 ? concat(bytes / 1000000, " MB") : concat(bytes >> 20, " MiB");
}

void print_row(const std::string& name, size_t bytes, const Result& result) {
  std::printf("%-15s %8s %12.1f %10.2f %14.2f %8.2f %12.1f %8.2f\n", name.c_str(),
              size_text(bytes).c_str(), result.ours * 1e6,
              static_cast<double>(bytes) / result.ours * 1e-9, result.part_of_limit,
              result.best_part, result.mpi * 1e6, result.mpi_by_ours);
  std::fflush(stdout);
}

struct Options {
  size_t ranks = 2;
  std::vector<std::string> operations = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                         "send_recv"};
  bool no_shared_memory = false;
  size_t network_bandwidth = 0;  // bytes a second and rank; 0: as fast as it is
  std::vector<size_t> sizes = {size_t{4} << 10, size_t{1} << 20, size_t{64} << 20, 500000000};
};

Options parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app("Collectives in shared memory against the machine's memory and against MPI");
  app.add_option("--ranks", options.ranks, "Without mpirun: ranks to start")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  std::vector<std::string> names = options.operations;
  for (size_t format = 0; format < kNumFormats; ++format) {
    const std::string name(name_of(static_cast<Format>(format)));
    names.insert(names.end(), {name, name + "-feedback"});
  }
  app.add_option("--operation", options.operations, "Which collectives, or codecs")
      ->check(CLI::IsMember(names))
      ->delimiter(',');
  app.add_flag("--no-shared-memory", options.no_shared_memory, "By messages");
  app.add_option("--network-bandwidth", options.network_bandwidth,
                 "Of messages, in bytes a second and rank: 1GB")
      ->transform(CLI::AsSizeValue(true))
      ->needs("--no-shared-memory");
  app.add_option("--size", options.sizes, "Bytes of the whole vector: 64MiB,500MB")
      ->transform(CLI::AsSizeValue(true) & CLI::Range(size_t{512}, size_t{4} << 30))
      ->delimiter(',');
  add_version_flag(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  return options;
}

// Becomes mpirun, which starts this program again on every rank. Returns only where it cannot.
void start_ranks(size_t ranks, char** argv) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string mpirun = program + ".runfiles/ladder/tools/mpirun";
  const std::string count = std::to_string(ranks);
  std::vector<const char*> command = {mpirun.c_str(), "-n", count.c_str(), program.c_str()};
  while (*++argv != nullptr) command.push_back(*argv);
  command.push_back(nullptr);
  execv(command[0], const_cast<char**>(command.data()));
  fail(mpirun + " cannot be started");
}

// The sizes for whose registered buffers /dev/shm has space.
std::vector<size_t> sizes_that_fit(const MpiWorld& world, std::vector<size_t> sizes) {
  struct statvfs status;
  const bool known = statvfs("/dev/shm", &status) == 0;
  uint64_t free_bytes = known ? uint64_t{status.f_bavail} * status.f_frsize : 0;
  mpi_check(MPI_Bcast(&free_bytes, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
  std::erase_if(sizes, [&](size_t size) {
    const bool too_large = world.size() * (size + (size_t{1} << 20)) > free_bytes;
    if (too_large && world.rank() == 0) {
      std::printf("without %s: /dev/shm has only %s free\n", size_text(size).c_str(),
                  human_bytes(free_bytes).c_str());
    }
    return too_large;
  });
  return sizes;
}

void run_all(const Options& options) {
  const MpiWorld world;
  const std::vector<size_t> sizes = sizes_that_fit(world, options.sizes);
  check(world.size() > 1 && !sizes.empty(), "nothing to measure");
  Stream stream(DeviceType::cpu);
  Memory memory(DeviceType::cpu, "device", 0);
  NodeMemory node_memory(world);
  set_num_threads(1);
  MpiOptions mpi;
  if (options.network_bandwidth > 0) {
    mpi.network = std::make_shared<TokenBucket>(static_cast<double>(options.network_bandwidth));
  }
  Communicator ranks(
      MpiTransport::make_world(world, options.no_shared_memory ? nullptr : &node_memory, mpi));
  const Shape shape = {std::ranges::max(sizes) / sizeof(float)};
  const Tensor shared(memory, Category::communication, DType::fp32, shape, &node_memory);
  const Tensor own(memory, Category::workspace, DType::fp32, shape);
  // Pages that were never written are all one, which stays in the cache.
  std::memset(own.view().data(), 0, own.view().num_bytes());
  const CollectiveBench bench = {ranks, stream, shared, own};
  if (world.rank() == 0) {
    std::printf("%zu ranks, fp32\n%-15s %8s %12s %10s %14s %8s %12s %8s\n", world.size(), "",
                "size", "us", "GB/s", "part of limit", "best", "MPI us", "MPI/ours");
  }
  for (const Contest& contest : contests(bench)) {
    if (std::ranges::count(options.operations, contest.name) == 0) continue;
    for (size_t bytes : sizes) {
      // Whole cache lines for every rank, also of half a vector.
      const size_t n = bytes / sizeof(float) / (world.size() * 32) * (world.size() * 32);
      const Result result = measure(bench, contest, n);
      if (world.rank() == 0) print_row(contest.name, bytes, result);
    }
  }
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  try {
    const ladder::Options options = ladder::parse_options(argc, argv);
    if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) ladder::start_ranks(options.ranks, argv);
    ladder::run_all(options);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return 1;
    ladder::MpiWorld::abort(1);
  }
}
