// Collectives against the machine: bazel run //common/comm:benchmark -- --ranks 4 --size 64MiB
//
// Each round times, one after the other, a collective in registered memory, a private loop with the
// same reads and writes (the memory limit: no collective can be faster) and MPI's own collective in
// place. Time of a round: from the first rank's begin to the last rank's end, so that ranks which
// take turns on a core are counted in full. Printed: medians over the rounds, of times and of
// ratios within one round, so that what else the machine does in the meantime strikes all alike.
// Below some 10 MB the memory limit is that of a cache, and what is measured is latency.
// --no-shared-memory measures the same operations by messages.
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

#include "common/comm/communicator.h"
#include "common/comm/mpi_transport.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/median.h"

namespace ladder {
namespace {

struct Bench {
  const MpiWorld& world;
  Communicator& ranks;
  Stream& stream;
  TensorView shared;         // what the collective works on, registered
  TensorView private_bytes;  // as large; of the limit and of MPI
};

// Three ways to do one operation on n elements.
struct Contest {
  const char* name;
  std::function<void(size_t n)> ours, limit, mpi;
};

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
double time_of(const Bench& bench, const std::function<void(size_t)>& way, size_t n) {
  const size_t calls = std::clamp<size_t>((size_t{1} << 20) / n, 1, 500);
  bench.ranks.barrier();
  double begin = now();
  for (size_t call = 0; call < calls; ++call) way(n);
  double end = now();
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &begin, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD));
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &end, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
  return (end - begin) / static_cast<double>(calls);
}

Result measure(const Bench& bench, const Contest& contest, size_t n) {
  const size_t rounds = n < (size_t{100} << 18) ? 21 : 9;
  std::vector<double> ours, limit, mpi, part_of_limit, mpi_by_ours;
  for (size_t round = 0; round <= rounds; ++round) {
    const double limit_seconds = time_of(bench, contest.limit, n);
    const double our_seconds = time_of(bench, contest.ours, n);
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

// The buffer of `bench` cut into equal parts, one for each rank.
std::vector<TensorView> parts_of(const Bench& bench, const TensorView& buffer, size_t n) {
  const size_t each = n / bench.ranks.size();
  std::vector<TensorView> parts;
  for (size_t r = 0; r < bench.ranks.size(); ++r)
    parts.push_back(buffer.elements(r * each, {each}));
  return parts;
}

// MPI counts are int: 500 MB of fp32 fit.
int count(size_t n) { return static_cast<int>(n); }

std::vector<Contest> contests(const Bench& bench) {
  const auto mine = [&bench](const TensorView& buffer, size_t n) {
    return parts_of(bench, buffer, n)[bench.ranks.rank()];
  };
  void* const memory = bench.private_bytes.data();
  const Contest all_reduce = {
      "all_reduce",
      [&bench](size_t n) {
        bench.ranks.all_reduce(bench.stream, bench.shared.elements(0, {n}), {}).wait(bench.stream);
      },
      // Each rank reads and writes 1/N of N buffers: as many streams, as much as one whole buffer.
      [&bench](size_t n) {
        reduce_to_all(parts_of(bench, bench.private_bytes, n), Reduction::sum);
      },
      [memory](size_t n) {
        mpi_check(
            MPI_Allreduce(MPI_IN_PLACE, memory, count(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
      }};
  const Contest reduce_scatter = {
      "reduce_scatter",
      [&bench, mine](size_t n) {
        const TensorView buffer = bench.shared.elements(0, {n});
        bench.ranks.reduce_scatter(bench.stream, mine(buffer, n), buffer, {}).wait(bench.stream);
      },
      [&bench](size_t n) {
        const std::vector<TensorView> parts = parts_of(bench, bench.private_bytes, n);
        const std::vector<ConstTensorView> in(parts.begin(), parts.end());
        reduce_to_one(parts[0], in, Reduction::sum);
      },
      [memory, &bench](size_t n) {
        mpi_check(MPI_Reduce_scatter_block(MPI_IN_PLACE, memory, count(n / bench.ranks.size()),
                                           MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
      }};
  const Contest all_gather = {
      "all_gather",
      [&bench, mine](size_t n) {
        const TensorView buffer = bench.shared.elements(0, {n});
        bench.ranks.all_gather(bench.stream, buffer, mine(buffer, n), {}).wait(bench.stream);
      },
      // Each rank copies (N-1)/N of the buffer; from the part before, so that it is not in a cache.
      [&bench](size_t n) {
        const std::vector<TensorView> parts = parts_of(bench, bench.private_bytes, n);
        for (size_t r = 1; r < parts.size(); ++r) copy_in_thread(parts[r], parts[r - 1]);
      },
      [memory, &bench](size_t n) {
        mpi_check(MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, memory, count(n / bench.ranks.size()),
                                MPI_FLOAT, MPI_COMM_WORLD));
      }};
  // There and back between two ranks.
  const auto ping_pong = [&bench](const auto& send, const auto& recv) {
    const size_t me = bench.ranks.rank(), peer = me ^ 1;
    if (peer >= bench.ranks.size()) return;
    if (me % 2 == 0) send(peer);
    recv(peer);
    if (me % 2 == 1) send(peer);
  };
  const Contest send_recv = {
      "send_recv",
      [&bench, ping_pong](size_t n) {
        const TensorView x = bench.shared.elements(0, {n});
        ping_pong([&](size_t to) { bench.ranks.send(bench.stream, x, to, {}).wait(bench.stream); },
                  [&](size_t r) { bench.ranks.recv(bench.stream, x, r, {}).wait(bench.stream); });
      },
      all_gather.limit,
      [memory, ping_pong](size_t n) {
        ping_pong(
            [&](size_t to) {
              mpi_check(MPI_Send(memory, count(n), MPI_FLOAT, count(to), 0, MPI_COMM_WORLD));
            },
            [&](size_t from) {
              mpi_check(MPI_Recv(memory, count(n), MPI_FLOAT, count(from), 0, MPI_COMM_WORLD,
                                 MPI_STATUS_IGNORE));
            });
      }};
  return {all_reduce, reduce_scatter, all_gather, send_recv};
}

std::string size_text(size_t bytes) {
  if (bytes < 1024) return concat(bytes, " B");
  if (bytes < 1000000) return concat(bytes / 1024, " KB");
  return bytes % 1000000 == 0 ? concat(bytes / 1000000, " MB") : concat(bytes >> 20, " MiB");
}

void print_row(const char* name, size_t bytes, const Result& result) {
  std::printf("%-15s %8s %12.1f %10.2f %14.2f %8.2f %12.1f %8.2f\n", name, size_text(bytes).c_str(),
              result.ours * 1e6, static_cast<double>(bytes) / result.ours * 1e-9,
              result.part_of_limit, result.best_part, result.mpi * 1e6, result.mpi_by_ours);
  std::fflush(stdout);
}

struct Options {
  size_t ranks = 2;
  std::vector<std::string> operations = {"all_reduce", "reduce_scatter", "all_gather", "send_recv"};
  bool no_shared_memory = false;
  std::vector<size_t> sizes = {size_t{4} << 10, size_t{1} << 20, size_t{64} << 20, 500000000};
};

Options parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app("Collectives in shared memory against the machine's memory and against MPI");
  app.add_option("--ranks", options.ranks, "Without mpirun: ranks to start")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  app.add_option("--operation", options.operations, "Which collectives")
      ->check(CLI::IsMember(options.operations))
      ->delimiter(',');
  app.add_flag("--no-shared-memory", options.no_shared_memory, "By messages");
  app.add_option("--size", options.sizes, "Bytes of the whole vector: 64MiB,500MB")
      ->transform(CLI::AsSizeValue(true) & CLI::Range(size_t{512}, size_t{4} << 30))
      ->delimiter(',');
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

// The sizes for whose registered buffers /dev/shm has room.
std::vector<size_t> sizes_with_room(const MpiWorld& world, std::vector<size_t> sizes) {
  struct statvfs status;
  const bool known = statvfs("/dev/shm", &status) == 0;
  uint64_t room = known ? uint64_t{status.f_bavail} * status.f_frsize : 0;
  mpi_check(MPI_Bcast(&room, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
  std::erase_if(sizes, [&](size_t size) {
    const bool too_large = world.size() * (size + (size_t{1} << 20)) > room;
    if (too_large && world.rank() == 0) {
      std::printf("without %s: /dev/shm has only %s free\n", size_text(size).c_str(),
                  human_bytes(room).c_str());
    }
    return too_large;
  });
  return sizes;
}

void run_all(const Options& options) {
  const MpiWorld world;
  const std::vector<size_t> sizes = sizes_with_room(world, options.sizes);
  check(world.size() > 1 && !sizes.empty(), "nothing to measure");
  Stream stream(DeviceType::cpu);
  Memory memory(DeviceType::cpu, "device", 0);
  NodeMemory node_memory(world);
  Communicator ranks(
      MpiTransport::make_world(world, options.no_shared_memory ? nullptr : &node_memory));
  const Shape shape = {std::ranges::max(sizes) / sizeof(float)};
  const Tensor shared(memory, Category::communication, DType::fp32, shape, &node_memory);
  const Tensor own(memory, Category::workspace, DType::fp32, shape);
  // Pages that were never written are all one, which stays in the cache.
  std::memset(own.view().data(), 0, own.view().num_bytes());
  const Bench bench = {world, ranks, stream, shared, own};
  if (world.rank() == 0) {
    std::printf("%zu ranks, fp32\n%-15s %8s %12s %10s %14s %8s %12s %8s\n", world.size(), "",
                "size", "us", "GB/s", "part of limit", "best", "MPI us", "MPI/ours");
  }
  for (const Contest& contest : contests(bench)) {
    if (std::ranges::count(options.operations, contest.name) == 0) continue;
    for (size_t bytes : sizes) {
      // Whole cache lines for every rank.
      const size_t n = bytes / sizeof(float) / (world.size() * 16) * (world.size() * 16);
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
