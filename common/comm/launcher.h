// The program that has started this process, perhaps together with others.
#pragma once

#include <cstddef>
#include <string>

namespace ladder {

// What the environment says of a launcher. Where none counts, the process is alone.
struct Launch {
  const char* name = nullptr;           // such as "torchrun"
  const char* size_variable = nullptr;  // such as "WORLD_SIZE"
  size_t rank = 0, size = 1;            // size 0: only MPI knows it
  bool is_open_mpi = false;             // by Open MPI's mpirun
  bool has_server = false;              // whether MPI can ask it where the other ranks are
};

// Finds the launcher. It counts if it has set a size and a rank below it, since one variable alone
// may be left over, as in notebooks and pods. (PMIx sets no size.) A launcher of several processes
// is preferred to one of a single process.
Launch find_launch();

// Prints the error in one process for all that the launcher has started on this machine: on rank 0
// at once, and on another rank after a moment if none has printed it. Returns when others have seen
// that.
void say_for_all(const Launch& launch, const std::string& error);

}  // namespace ladder
