// The MPI job that this process is a rank of.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <source_location>
#include <string>

namespace ladder {

// Throws Error with MPI's own text unless `result` is MPI_SUCCESS.
void mpi_check(int result, std::source_location where = std::source_location::current());

// MPI_Init_thread to MPI_Finalize. One object in a program, made in main's thread.
class MpiWorld {
 public:
  // Throws Error if MPI cannot serve several threads at once (MPI_THREAD_MULTIPLE).
  MpiWorld();
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  size_t rank() const { return rank_; }
  size_t size() const { return size_; }
  // Ranks on this machine, and the communicator of them.
  size_t node_size() const { return node_size_; }
  MPI_Comm node() const { return node_; }
  // "rank 3 on hostname"
  std::string name() const;

  // Ends all ranks at once with `status`. Whoever calls it first has said why on standard error.
  [[noreturn]] static void abort(int status);

 private:
  size_t rank_ = 0, size_ = 1, node_size_ = 1;
  MPI_Comm node_ = MPI_COMM_NULL;
};

}  // namespace ladder
