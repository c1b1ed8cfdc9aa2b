// The MPI job that this process is a rank of.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include "kernels/runtime/clock.h"

namespace ladder {

// Throws an Error with MPI's own text unless `result` is MPI_SUCCESS.
void mpi_check(int result, std::source_location where = std::source_location::current());

// Allocates a window of memory that the ranks of `comm` share; they must all be on one machine.
// This rank contributes `bytes` bytes, and their first address is returned. The caller frees
// `window`. If there is no room it throws an Error that says what is left in /dev/shm. Collective.
void* allocate_window(MPI_Comm comm, size_t bytes, MPI_Win& window);

// Says what /dev/shm has left, as in "12 MiB and 7 files more", or why that is not known.
std::string space_for_sharing();

// A setting that all ranks must agree on, such as {"--seed", "1"}.
struct Setting {
  std::string name, value;
};

// MpiWorld is MPI from MPI_Init_thread to MPI_Finalize. A program has one, made in main's thread.
class MpiWorld {
 public:
  // Throws an Error if MPI cannot serve several threads at once (MPI_THREAD_MULTIPLE).
  MpiWorld();
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  size_t rank() const { return rank_; }
  size_t size() const { return size_; }
  // The number of ranks on this machine, this rank's number among them, and their communicator.
  size_t node_size() const { return node_size_; }
  size_t node_rank() const { return node_rank_; }
  MPI_Comm node() const { return node_; }
  // The number of machines, and the machine of each rank, as the number of the first rank there.
  size_t num_nodes() const { return num_nodes_; }
  const std::vector<size_t>& machine_of() const { return machine_of_; }
  // Returns this rank's name, such as "rank 3 on hostname".
  const std::string& name() const { return names_[rank_]; }
  // Returns the names of all ranks.
  const std::vector<std::string>& names() const { return names_; }
  // Returns the names of the ranks of a group.
  std::vector<std::string> names_of(MPI_Comm group) const;

  // Tells the ranks of this machine that this rank waits for the one with this name.
  void note_wait(const std::string& name) const;
  // Returns the name of a rank for which this one has waited so long, and if that rank has noted
  // lately that it waits itself, whom it waits for: who keeps all may be another rank.
  std::string late_name(const std::string& name, double seconds) const;
  // Returns true for the first rank of this machine that calls it, and false for the others: they
  // most likely fail because the first one did, and need not say so too.
  bool first_to_fail();
  // Throws UserError on all ranks if a rank's settings are not those of rank 0. The message names
  // the first setting that differs, both values and both ranks. Collective. The ranks first
  // exchange the lengths of their texts, so it does not matter how much the texts differ.
  void require_same(const std::vector<Setting>& settings) const;
  // Returns true if all ranks have the same text. Collective.
  bool all_same(const std::string& text) const;
  // Returns the values of rank 0, then those of rank 1, and so on. Collective. REQUIRES: all ranks
  // give equally many.
  std::vector<uint64_t> all_gather(const std::vector<uint64_t>& own) const;

  // Ends all ranks at once with `status`. REQUIRES: the caller has said why on standard error.
  [[noreturn]] static void abort(int status);

 private:
  void find_names();
  void find_machines();
  // The length and the hash of each rank's text.
  struct Summary {
    uint64_t length, hash;
    friend bool operator==(const Summary&, const Summary&) = default;
  };
  std::vector<Summary> summaries_of(const std::string& text) const;
  // Returns the text of rank `from`, whose length is `length`. Collective.
  std::string text_of(size_t from, const std::string& own, uint64_t length) const;

  // What a rank has noted, in shared memory: whom it waits for, and when, by Clock.
  struct Wait {
    std::atomic<size_t> on;
    std::atomic<Time::rep> at;
  };
  size_t index_of(const std::string& name) const;

  size_t rank_ = 0, size_ = 1, node_size_ = 1, node_rank_ = 0, num_nodes_ = 0;
  std::vector<size_t> machine_of_;
  std::vector<std::string> names_;  // of all ranks
  MPI_Comm node_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::atomic<int>* failures_ = nullptr;  // counts first_to_fail(), shared by the machine's ranks
  Wait* waits_ = nullptr;                 // of all ranks; those of this machine write theirs
};

}  // namespace ladder
