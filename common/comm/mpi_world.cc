#include "common/comm/mpi_world.h"

#include <cstdint>
#include <cstdlib>
#include <new>

#include "kernels/runtime/check.h"

namespace ladder {

void mpi_check(int result, std::source_location where) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  fail(std::string(text, static_cast<size_t>(length)), where);
}

MpiWorld::MpiWorld() {
  int provided = 0;
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

  int node_rank = 0, unit = 0;
  MPI_Aint bytes = 0;
  mpi_check(MPI_Comm_rank(node_, &node_rank));
  node_rank_ = static_cast<size_t>(node_rank);
  mpi_check(MPI_Win_allocate_shared(node_rank == 0 ? 64 : 0, 1, MPI_INFO_NULL, node_, &failures_,
                                    &window_));
  mpi_check(MPI_Win_shared_query(window_, 0, &bytes, &unit, &failures_));
  if (node_rank == 0) new (failures_) std::atomic<int>(0);
  mpi_check(MPI_Barrier(node_));
}

MpiWorld::~MpiWorld() {
  MPI_Win_free(&window_);
  MPI_Comm_free(&node_);
  MPI_Finalize();
}

std::string MpiWorld::name() const {
  char host[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  mpi_check(MPI_Get_processor_name(host, &length));
  return concat("rank ", rank_, " on ", std::string(host, static_cast<size_t>(length)));
}

bool MpiWorld::first_to_fail() { return failures_->fetch_add(1) == 0; }

void MpiWorld::check_same(const std::string& text) const {
  uint64_t length = text.size();
  mpi_check(MPI_Bcast(&length, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
  std::string first = text;
  first.resize(length);
  mpi_check(MPI_Bcast(first.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD));
  if (first == text) return;
  throw UserError(concat("rank ", rank_, " was started with other flags than rank 0: `", text,
                         "` and `", first, "`"));
}

void MpiWorld::abort(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);  // MPI_Abort does not return, but its declaration does not say so
}

}  // namespace ladder
