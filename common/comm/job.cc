#include "common/comm/job.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <set>
#include <thread>
#include <vector>

#include "common/comm/launcher.h"
#include "common/comm/nccl_transport.h"
#include "common/comm/numa.h"
#include "common/comm/one_rank.h"
#include "common/comm/staged_transport.h"
#include "kernels/matmul.h"
#include "kernels/runtime/gpu.h"

namespace ladder {
namespace {

// In which a rank that fails must have given up what it had begun.
constexpr std::chrono::seconds kTimeToGiveUp(30);

// What libraries take of a GPU after connect(), and no category of memory counts. A thread's first
// product on a stream makes cuBLAS load kernels and takes 32 MiB (kernels/matmul.h); a trainer has
// few such streams. NCCL takes memory twice: when a communicator is made (104 MiB: an H100 and one
// rank took 100 to 102 with 2.28.9, and 586 for the first, which comes before connect() returns)
// and when its ranks first meet (256 MiB: 4 MiB, NCCL_BUFFSIZE, for each of up to 32 channels and
// two directions). How much, it says after the fact at best (ncclCommMemStats, from 2.29.7 on).
constexpr size_t kReserveForProducts = size_t{256} << 20;
constexpr size_t kReserveForCommunicator = size_t{360} << 20;

}  // namespace

bool Job::is_launched() {
  const Launch launch = find_launch();
  return launch.size != 1 || launch.is_open_mpi;
}

size_t memory_beside_libraries(size_t free, size_t num_communicators) {
  const size_t reserve = kReserveForProducts + num_communicators * kReserveForCommunicator;
  return free > reserve ? free - reserve : 1;  // 0 would be no cap
}

void Job::join(double wait_limit) {
  // By itself CUDA loads a kernel when it is first launched, and that may wait for all that runs on
  // the GPU. A collective that runs there may wait for the rank that is about to launch, so both
  // would wait for ever ("Lazy Loading", "Concurrent execution", in the CUDA C++ Programming
  // Guide). CUDA reads the variable when it is first called.
  const Launch launch = find_launch();
  if (launch.size == 1) return;
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);  // 0: the user's value stays
  if (launch.has_server) world_.emplace(wait_limit);
  if (launch.size == 0 || size() == launch.size) return;
  world_.reset();
  const bool is_srun = launch.name == std::string("srun");
  say_for_all(
      launch,
      concat(launch.name, " has started ", launch.size, " processes (", launch.size_variable, "=",
             std::getenv(launch.size_variable), ") that do not find each other by MPI; use ",
             is_srun ? "srun --mpi=pmix, or tools/mpirun in the job" : "tools/mpirun",
             ", or, for one process alone, unset ", launch.size_variable));
  std::_Exit(2);
}

Job::Sharing Job::find_sharing(DeviceType device) const {
  const size_t ranks = node_size();
  if (device == DeviceType::cpu) return {.num_devices = 0, .ranks_on_device = ranks};
  // Each rank has an emulator of its own; they share the machine's memory.
  if (device == DeviceType::emulator) return {.num_devices = ranks, .ranks_on_device = ranks};
  if (!world_) return {};
  constexpr int kLength = 32;
  const std::string own = selected_device_id(device);
  const auto limit = world_->limit_wait();
  std::vector<char> all(kLength * ranks, '\0');
  std::copy_n(own.begin(), std::min<size_t>(own.size(), kLength - 1),
              &all[kLength * world_->node_rank()]);
  mpi_check(
      MPI_Allgather(MPI_IN_PLACE, 0, MPI_CHAR, all.data(), kLength, MPI_CHAR, world_->node()));
  std::multiset<std::string> ids;
  for (size_t r = 0; r < ranks; ++r) ids.insert(&all[kLength * r]);
  const size_t num_devices = std::set<std::string>(ids.begin(), ids.end()).size();
  int shares = num_devices < ranks;
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &shares, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
  return {num_devices, ids.count(own), shares != 0};
}

// Not in the header: where it is inlined, GCC 14 warns of the copy of an array of one.
std::vector<uint64_t> Job::all_gather(const std::vector<uint64_t>& own) const {
  return world_ ? world_->all_gather(own) : own;
}

std::vector<size_t> Job::machine_of() const {
  return world_ ? world_->machine_of() : std::vector<size_t>{0};
}

void Job::connect(const ConnectOptions& options) {
  shares_memory_ = options.shared_memory && node_size() == size();
  select_device(options.device, world_ ? world_->node_rank() : 0);
  require_code_for(options.device);
  const Sharing sharing = find_sharing(options.device);
  std::unique_ptr<Transport> transport;
  if (!world_) {
    transport = std::make_unique<OneRank>(options.device);
  } else {
    if (options.shared_memory) node_memory_.emplace(*world_);
    transport =
        MpiTransport::make_world(*world_, node_memory_ ? &*node_memory_ : nullptr, options.mpi);
    if (options.device == DeviceType::cpu) {
      registered_ = node_memory_ ? &*node_memory_ : nullptr;
      if (node_memory_ && world_->num_nodes() > 1) machines_that_sum_ = world_->machine_of();
      const std::string between = world_->num_nodes() == 1
                                      ? std::string()
                                      : concat(", messages between the ", world_->num_nodes());
      communication_ =
          node_memory_ ? concat("shared memory within a machine", between) : "messages only";
    } else {
      transport = connect_devices(options, sharing, std::move(transport));
      keep_beside_device(options);
    }
  }
  communicator_ = std::make_unique<Communicator>(std::move(transport));
  device_ = options.device;
  free_memory_ = free_memory(device_) / sharing.ranks_on_device;
  if (!world_) return;
  const auto limit = world_->limit_wait();
  mpi_check(MPI_Barrier(world_->node()));  // nobody allocates before all have looked
}

size_t Job::free_device_memory(size_t num_groups) const {
  if (device_ != DeviceType::cuda) return free_memory_;
  return memory_beside_libraries(free_memory_, nccl_memory_ ? 1 + num_groups : 0);
}

void Job::make_windows() {
  if (nccl_memory_) nccl_memory_->make_windows();
}

void Job::keep_beside_device(const ConnectOptions& options) {
  const bool may = options.numa && node_size() > 1;
  const bool is_kept = may && keep_on(cpus_beside(selected_device_id(options.device)));
  const std::vector<uint64_t> kept = world_->all_gather({is_kept});
  const auto count = std::ranges::count(kept, 1);
  if (count > 0) communication_ += concat("; ", count, " ranks keep to the CPUs beside their GPUs");
}

std::unique_ptr<Transport> Job::connect_devices(const ConnectOptions& options,
                                                const Sharing& sharing,
                                                std::unique_ptr<Transport> host) {
  const std::string shares = concat(node_size(), " ranks share ", sharing.num_devices,
                                    sharing.num_devices == 1 ? " GPU" : " GPUs");
  if (options.device_path == DevicePath::nccl && sharing.anywhere) {
    throw UserError(concat("--communication nccl: ", shares,
                           ", which NCCL refuses; use --communication staged, or a rank per GPU"));
  }
  const NcclOptions& nccl = options.nccl;
  if (sharing.anywhere && (nccl.max_thread_blocks > 0 || nccl.windows)) {
    throw UserError(concat("--nccl-", nccl.windows ? "windows" : "ctas", ": ", shares,
                           ", which NCCL refuses; leave it out, or take a rank per GPU"));
  }
  if (options.device_path == DevicePath::staged ||
      (options.device_path == DevicePath::automatic && sharing.anywhere)) {
    communication_ = concat("staged through host memory", sharing.anywhere ? ": " + shares : "");
    return StagedTransport::make(std::move(host), options.device);
  }
  world_->require_same({{"NCCL", NcclTransport::version()}});
  nccl_memory_.emplace();
  leave_multiprocessors(nccl.max_thread_blocks);
  // NCCL itself does not notice when ranks' calls differ or a rank does not come.
  const bool compare = options.mpi.check_collectives || options.mpi.timeout_seconds > 0;
  communication_ = options.device == DeviceType::cuda ? "NCCL " + NcclTransport::version()
                                                      : std::string("emulated NCCL");
  if (nccl.max_thread_blocks > 0) {
    communication_ += concat(" in at most ", nccl.max_thread_blocks, " thread blocks");
  }
  auto transport =
      NcclTransport::make(std::move(host), options.device, &*nccl_memory_, compare, nccl);
  const std::vector<uint64_t> works = world_->all_gather({nccl_memory_->try_out()});
  if (std::ranges::count(works, 0) > 0) {
    communication_ += ", which does not register buffers on every rank, so on none";
    return transport;
  }
  registered_ = &*nccl_memory_;
  if (nccl.windows) {
    communication_ += nccl_memory_->try_windows() ? ", symmetric windows" : ", no windows here";
  }
  return transport;
}

bool Job::say_first(const std::string& message) {
  if (world_ && !world_->first_to_fail()) return false;
  // The message is written in one piece, because mpirun mixes the pieces of different ranks.
  std::cerr << message + "\n" << std::flush;
  return true;
}

void Job::announce(const std::string& message) {
  if (!world_ || announced_) return;
  announced_ = say_first(message);
  watchdog_.emplace(kTimeToGiveUp, [] { MpiWorld::abort(1); });
}

void Job::fail(const std::string& message, int status) {
  const bool is_first = announced_ ? *announced_ : say_first(message);
  // If another rank has failed first, it is about to end this one too. This rank ends the run only
  // if the first one cannot.
  if (!is_first) std::this_thread::sleep_for(std::chrono::seconds(5));
  if (find_launch().size != 1) MpiWorld::abort(status);
}

void Job::refuse(const std::string& mistake) {
  if (rank() == 0) return fail("error: " + mistake, 2);
  // It takes longer until mpirun has ended the ranks of other machines.
  std::this_thread::sleep_for(std::chrono::milliseconds(node_size() == size() ? 300 : 3000));
  fail(concat("error: ", prefix(), mistake), 2);
}

}  // namespace ladder
