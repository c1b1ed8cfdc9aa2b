#include "common/comm/mpi_world.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <new>
#include <numeric>
#include <thread>

#include "common/comm/delay.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/memory.h"

namespace ladder {

namespace {

std::string error_text(int result) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  return std::string(text, static_cast<size_t>(length));
}

}  // namespace

void mpi_check(int result, std::source_location where) {
  if (result == MPI_SUCCESS) return;
  fail(
      concat("a call of MPI failed, as when a machine or the network breaks: ", error_text(result)),
      where);
}

std::string space_for_sharing() {
  struct statvfs status;
  if (statvfs("/dev/shm", &status) != 0) return concat("nothing known: ", std::strerror(errno));
  return concat(human_bytes(status.f_bavail * status.f_frsize), " and ", status.f_favail,
                " files more");
}

void* allocate_window(MPI_Comm comm, size_t bytes, MPI_Win& window) {
  void* begin = nullptr;
  const int result = MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, comm,
                                             &begin, &window);
  if (result != MPI_SUCCESS) {
    fail(concat("shared memory of ", bytes, " bytes cannot be made (", error_text(result),
                "); /dev/shm has ", space_for_sharing()));
  }
  return begin;
}

// MPI may take so many seconds to start and to connect ranks that have all come.
constexpr double kLeastLimit = 10;

MpiWorld::MpiWorld(double wait_limit)
    : wait_limit_(wait_limit > 0 ? std::max(wait_limit, kLeastLimit) : 0) {
  setenv("HOME", "/", 0);  // without one Open MPI 5 ends the program
  int provided = 0;
  auto limit = limit_wait();
  mpi_check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
  check(provided == MPI_THREAD_MULTIPLE, "this MPI does not serve several threads at once");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0, size = 0, node_size = 0;
  mpi_check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  mpi_check(MPI_Comm_size(MPI_COMM_WORLD, &size));
  mpi_check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node_));
  mpi_check(MPI_Comm_size(node_, &node_size));
  rank_ = static_cast<size_t>(rank);
  size_ = static_cast<size_t>(size);
  node_size_ = static_cast<size_t>(node_size);

  find_names();
  share_boards();
  limit.reset();
  find_machines();
}

void MpiWorld::share_boards() {
  int node_rank = 0, unit = 0;
  MPI_Aint bytes = 0;
  void* begin = nullptr;
  mpi_check(MPI_Comm_rank(node_, &node_rank));
  node_rank_ = static_cast<size_t>(node_rank);
  constexpr size_t kLine = 64;  // of the cache; the window may begin anywhere in one
  const size_t needed = node_size_ * sizeof(NodeBoard);
  size_t space = needed + kLine;
  allocate_window(node_, node_rank == 0 ? space : 0, window_);
  mpi_check(MPI_Win_shared_query(window_, 0, &bytes, &unit, &begin));
  auto* const boards = static_cast<NodeBoard*>(std::align(kLine, needed, begin, space));
  maybe_delay("world: before its window is used");
  new (boards + node_rank) NodeBoard;
  mpi_check(MPI_Barrier(node_));
  board_ = boards;
}

std::unique_ptr<Watchdog> MpiWorld::limit_wait() const {
  NodeBoard* const board = board_;
  if (board != nullptr) ++board[node_rank_].waits;
  if (wait_limit_ == 0) return nullptr;
  // Time is counted in looks, so it stands still where this process does, as when a run is paused.
  constexpr int kLooks = 50;
  return std::make_unique<Watchdog>(std::chrono::duration<double>(wait_limit_ / kLooks),
                                    [this, looks = 0]() mutable {
                                      if (++looks == kLooks) end_late();
                                    });
}

void MpiWorld::end_late() const {
  const NodeBoard* const board = board_;
  std::string late;
  for (size_t r = 0, here = 0; board != nullptr && r < machine_of_.size(); ++r) {
    if (machine_of_[r] != machine_of_[rank_]) continue;
    if (board[here++].waits < board[node_rank_].waits)
      late += (late.empty() ? "" : ", ") + names_[r];
  }
  // One rank of the machine says it and ends all; before they share anything, the first of them.
  if (board == nullptr) {
    const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
    const int turn = rank == nullptr ? 0 : std::atoi(rank);
    std::this_thread::sleep_for(std::chrono::milliseconds(200 * turn));
  } else if (!first_to_fail()) {
    std::this_thread::sleep_for(std::chrono::seconds(5));
    abort(1);
  }
  std::cerr << concat("error: ", late.empty() ? "some ranks" : late, " did not come within ",
                      wait_limit_, " s while ranks start (--collective-timeout)\n")
            << std::flush;
  abort(1);
}

void MpiWorld::find_names() {
  constexpr size_t kLength = MPI_MAX_PROCESSOR_NAME;
  std::vector<char> hosts(kLength * size_, '\0');
  int length = 0;
  mpi_check(MPI_Get_processor_name(&hosts[kLength * rank_], &length));
  mpi_check(
      MPI_Allgather(MPI_IN_PLACE, 0, MPI_CHAR, hosts.data(), kLength, MPI_CHAR, MPI_COMM_WORLD));
  for (size_t r = 0; r < size_; ++r) {
    names_.push_back(concat("rank ", r, " on ", &hosts[kLength * r]));
  }
}

void MpiWorld::find_machines() {
  uint64_t first = rank_;
  mpi_check(MPI_Bcast(&first, 1, MPI_UINT64_T, 0, node_));
  const std::vector<uint64_t> all = all_gather({first});
  machine_of_.assign(all.begin(), all.end());
  for (size_t r = 0; r < size_; ++r) num_nodes_ += machine_of_[r] == r;
}

MpiWorld::~MpiWorld() {
  MPI_Win_free(&window_);
  MPI_Comm_free(&node_);
  MPI_Finalize();
}

std::vector<std::string> MpiWorld::names_of(MPI_Comm group) const {
  int size = 0;
  mpi_check(MPI_Comm_size(group, &size));
  std::vector<int> members(static_cast<size_t>(size)), ranks(members.size());
  std::iota(members.begin(), members.end(), 0);
  MPI_Group ours, all;
  mpi_check(MPI_Comm_group(group, &ours));
  mpi_check(MPI_Comm_group(MPI_COMM_WORLD, &all));
  mpi_check(MPI_Group_translate_ranks(ours, size, members.data(), all, ranks.data()));
  MPI_Group_free(&ours);
  MPI_Group_free(&all);
  std::vector<std::string> names;
  for (int rank : ranks) names.push_back(names_[static_cast<size_t>(rank)]);
  return names;
}

size_t MpiWorld::index_of(const std::string& name) const {
  return static_cast<size_t>(std::ranges::find(names_, name) - names_.begin());
}

NodeBoard* MpiWorld::board_of(size_t rank) const {
  NodeBoard* board = board_;
  if (board == nullptr || machine_of_[rank] != machine_of_[rank_]) return nullptr;
  for (size_t r = 0; r < rank; ++r) board += machine_of_[r] == machine_of_[rank];
  return board;
}

void MpiWorld::note_wait(const std::string& name) const {
  NodeBoard& own = board_[node_rank_];
  own.waits_for = index_of(name);
  own.waits_at = Clock::now().time_since_epoch().count();
}

std::string MpiWorld::late_name(const std::string& name, double seconds) const {
  const double fresh = std::min(1.0, seconds / 2);
  size_t last = index_of(name), hops = 0;
  for (; hops < size_; ++hops) {
    const NodeBoard* const board = board_of(last);
    if (last == rank_ || board == nullptr) break;
    if (seconds_since(Time{Time::duration(board->waits_at)}) > fresh) break;
    last = board->waits_for;
  }
  if (hops == 0) return name;
  return concat(name, ", which waits for ", hops > 1 ? "others, in the end for " : "",
                names_[last]);
}

bool MpiWorld::first_to_fail() const { return board_.load()->failures.fetch_add(1) == 0; }

void MpiWorld::abort(int status) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  // Without MPI this process just ends, and mpirun then ends the ranks that wait for it.
  if (initialized) MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);  // MPI_Abort does not return, but its declaration does not say so
}

}  // namespace ladder
