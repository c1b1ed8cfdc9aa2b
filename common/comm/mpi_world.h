// The MPI job that this process is a rank of.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "common/comm/watchdog.h"
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

// What a rank shares with the others of its machine. `failures`, `end` and `save` are used on the
// board of the machine's first rank only, for all of them.
struct NodeBoard {
  std::atomic<int> failures = 0;            // calls of MpiWorld::first_to_fail()
  std::atomic<uint64_t> end = 0, save = 0;  // AgreedSteps
  std::atomic<uint32_t> waits = 0;          // how often the rank has begun MpiWorld::limit_wait()
  std::atomic<size_t> waits_for = 0;        // the rank that this one waits for, as it has noted
  std::atomic<Time::rep> waits_at = 0;      // when it has noted that, by Clock
};

// MpiWorld is MPI from MPI_Init_thread to MPI_Finalize. A program has one, made in main's thread.
class MpiWorld {
 public:
  // Throws an Error if MPI cannot serve several threads at once (MPI_THREAD_MULTIPLE). `wait_limit`
  // is how many seconds limit_wait() allows: 0 for no limit, and at least 10 otherwise (a smaller
  // value is taken for 10).
  explicit MpiWorld(double wait_limit = 0);
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
  // Says who is late when this rank has waited `seconds` seconds for the rank called `name`: that
  // name, and if that rank has itself noted a wait within the last second, whom it waits for, and
  // so on to the last of them, since that one may be what holds up all the others.
  std::string late_name(const std::string& name, double seconds) const;
  // Limits the time of waits inside MPI: call it before one, and destroy the result after it. If
  // the limit is over before that, an error names the ranks of this machine that have not begun the
  // same wait, and all ranks end. All ranks do these waits in the same order. Returns null if there
  // is no limit. (Communicators limit their operations themselves.)
  std::unique_ptr<Watchdog> limit_wait() const;
  NodeBoard& board() { return board_[0]; }
  // Returns true for the first rank of this machine that calls it, and false for the others: they
  // most likely fail because the first one did, and need not say so too.
  bool first_to_fail() const;
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
  void share_boards();
  [[noreturn]] void end_late() const;
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

  // Returns what a rank of this machine shares; null for a rank of another one.
  NodeBoard* board_of(size_t rank) const;
  size_t index_of(const std::string& name) const;

  size_t rank_ = 0, size_ = 1, node_size_ = 1, node_rank_ = 0, num_nodes_ = 0;
  std::vector<size_t> machine_of_;
  std::vector<std::string> names_;  // of all ranks
  MPI_Comm node_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::atomic<NodeBoard*> board_ =
      nullptr;  // of the machine's first rank, then those of the others
  double wait_limit_;
};

}  // namespace ladder
