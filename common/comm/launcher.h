// The program that has started this process, if it has started others together with it.
#pragma once

#include <cstddef>
#include <string>

namespace ladder {

// What a launcher tells a process that it starts.
struct Launch {
  std::string name;           // such as "torchrun"; empty: nobody known has started this process
  std::string size_variable;  // what has told the size, such as "WORLD_SIZE"
  std::string way_out;  // what a user of this launcher can do if it does not bring MPI's ranks
                        // together
  size_t rank = 0;
  size_t size = 1;               // 0: one that only MPI knows
  bool is_open_mpi = false;      // Open MPI's mpirun
  bool brings_together = false;  // whether MPI can ask the launcher where the other ranks are
};

// Returns what the environment, a list as `environ`, says. A launcher counts if it has told both
// the rank and the size: one variable alone may be left over from something else, as in notebooks
// and pods. One of several processes goes before one that was started alone.
Launch find_launch(const char* const* environment);
// Returns what this process's environment says.
Launch find_launch();

// Prints the error on standard error, in one process for all that the launcher has started on this
// machine: at once on rank 0, and on another rank after a moment if none has printed it. Returns
// when others have seen that it has been said.
void say_for_all(const Launch& launch, const std::string& error);

}  // namespace ladder
