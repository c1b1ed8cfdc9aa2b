// How the ranks of a new communicator find each other.
#include <array>

#include "common/comm/emulator/operation.h"

namespace ladder::emulator {

int world_rank() {
  int initialized = 0, rank = 0;
  check_mpi(MPI_Initialized(&initialized));
  if (!initialized) throw NcclFailure{ncclSystemError, "MPI has not been initialized"};
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  return rank;
}

std::vector<int> meet(const Id& id, int num_ranks, int rank, int tag) {
  const int own = world_rank();
  std::vector<int> members(static_cast<size_t>(num_ranks), -1);
  const std::array<int, 2> me = {rank, own};
  if (own != id.maker) {
    check_mpi(MPI_Send(me.data(), 2, MPI_INT, id.maker, tag, MPI_COMM_WORLD));
    check_mpi(MPI_Recv(members.data(), num_ranks, MPI_INT, id.maker, tag, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE));
    return members;
  }
  std::vector<std::array<int, 2>> all = {me};
  for (int i = 1; i < num_ranks; ++i) {
    check_mpi(MPI_Recv(all.emplace_back().data(), 2, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE));
  }
  bool twice = false;
  for (const auto& [group_rank, process] : all) {
    int& member = members[static_cast<size_t>(group_rank)];
    twice = twice || member != -1;
    member = process;
  }
  if (twice) members[0] = -1;
  for (size_t i = 1; i < all.size(); ++i) {
    check_mpi(MPI_Send(members.data(), num_ranks, MPI_INT, all[i][1], tag, MPI_COMM_WORLD));
  }
  return members;
}

}  // namespace ladder::emulator
