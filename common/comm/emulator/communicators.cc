// How the emulated NCCL's communicators come to be and end.
#include <nccl.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "common/comm/emulator/calls.h"
#include "common/comm/emulator/made.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

constexpr unsigned kMagic = 0xcafebeef;  // in NCCL_CONFIG_INITIALIZER

// What NCCL's version is here: the header's, or an older one.
int version() {
  const char* const value = std::getenv("LADDER_EMULATOR_NCCL_VERSION");
  return value == nullptr ? NCCL_VERSION_CODE : std::atoi(value);
}

struct Made {
  std::mutex mutex;
  std::vector<MadeCommunicator> all;
};
Made& made() {
  static auto* const of_process = new Made;
  return *of_process;
}

void make(ncclComm_t* comm, const char* call, MPI_Comm mpi, int rank, int size, int max_ctas) {
  check_mpi(MPI_Comm_set_errhandler(mpi, MPI_ERRORS_RETURN));
  *comm = new ncclComm{.mpi = mpi, .rank = rank, .size = size, .max_ctas = max_ctas};
  const std::lock_guard lock(made().mutex);
  made().all.push_back({call, size, max_ctas});
}

void init(ncclComm_t* comm, const char* call, int num_ranks, const ncclUniqueId& id, int rank,
          int max_ctas) {
  require(comm != nullptr && num_ranks > 0 && rank >= 0 && rank < num_ranks,
          "comm is null, or the rank is none");
  Id known;
  std::memcpy(&known, id.internal, sizeof known);
  // Messages of other groups that meet now have other tags.
  const int tag = 1000 + known.serial % 30000;
  const std::vector<int> members = meet(known, num_ranks, rank, tag);
  require(members[0] != -1, "two processes have the same rank");
  MPI_Group world, ranks;
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world));
  check_mpi(MPI_Group_incl(world, num_ranks, members.data(), &ranks));
  MPI_Comm mpi = MPI_COMM_NULL;
  check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, ranks, tag, &mpi));
  MPI_Group_free(&ranks);
  MPI_Group_free(&world);
  make(comm, call, mpi, rank, num_ranks, max_ctas);
}

}  // namespace

std::vector<MadeCommunicator> made_communicators() {
  const std::lock_guard lock(made().mutex);
  return made().all;
}

void abort(ncclComm_t comm) {
  comm->aborted = true;
  finish_sends(*comm);
  tell_peers_of_abort(*comm);
  delete comm;  // MPI's is not freed: that is collective, and the program is about to end
}

void require_version(int needed, const std::string& function) {
  if (version() >= needed) return;
  throw NcclFailure{ncclInvalidUsage, ladder::concat("this NCCL is too old for ", function)};
}

}  // namespace ladder::emulator

using namespace ladder::emulator;

ncclResult_t ncclGetVersion(int* version) {
  return guarded([&] {
    require(version != nullptr, "version is null");
    *version = ladder::emulator::version();
  });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return guarded([&] {
    require(id != nullptr, "id is null");
    static std::atomic<int> serial = 0;
    const Id made = {world_rank(), serial++};
    std::memset(id, 0, sizeof *id);
    std::memcpy(id->internal, &made, sizeof made);
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank) {
  return guarded(
      [&] { init(comm, "ncclCommInitRank", num_ranks, id, rank, NCCL_CONFIG_UNDEF_INT); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return guarded([&] {
    allow("ncclCommInitRankConfig");
    require(config != nullptr && config->magic == kMagic, "the configuration is not initialized");
    const int least = config->minCTAs, most = config->maxCTAs;
    const bool fine = (least == NCCL_CONFIG_UNDEF_INT || least > 0) &&
                      (most == NCCL_CONFIG_UNDEF_INT || (most > 0 && most >= least));
    require(fine, "minCTAs and maxCTAs are not above 0, or not in this order");
    init(comm, "ncclCommInitRankConfig", num_ranks, id, rank, most);
  });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part,
                           ncclConfig_t* config) {
  return guarded([&] {
    allow("ncclCommSplit");
    require(comm != nullptr && part != nullptr && config == nullptr,
            "an argument is null, or the configuration is not that of the communicator");
    require(color >= 0 || color == NCCL_SPLIT_NOCOLOR, "no such color");
    MPI_Comm mpi = MPI_COMM_NULL;
    const int mpi_color = color == NCCL_SPLIT_NOCOLOR ? MPI_UNDEFINED : color;
    check_mpi(MPI_Comm_split(comm->mpi, mpi_color, key, &mpi));
    *part = nullptr;
    if (mpi == MPI_COMM_NULL) return;
    int rank = 0, size = 0;
    check_mpi(MPI_Comm_rank(mpi, &rank));
    check_mpi(MPI_Comm_size(mpi, &size));
    make(part, "ncclCommSplit", mpi, rank, size, comm->max_ctas);
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return guarded([&] {
    require(comm != nullptr, "the communicator is null");
    finish_sends(*comm);
    check_mpi(MPI_Comm_free(&comm->mpi));
    delete comm;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return guarded([&] {
    require(comm != nullptr, "the communicator is null");
    group().depth > 0 ? group().aborts.push_back(comm) : abort(comm);
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return guarded([&] {
    require(comm != nullptr && error != nullptr, "an argument is null");
    // Whatever else fails here is returned by the call.
    *error = has_peer_aborted(*comm) ? ncclRemoteError : ncclSuccess;
  });
}
