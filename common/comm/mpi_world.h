// The MPI job that this process is a rank of.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

namespace ladder {

// Throws Error with MPI's own text unless `result` is MPI_SUCCESS.
void mpi_check(int result, std::source_location where = std::source_location::current());

// A window of memory that the ranks of `comm`, all on one machine, share: `bytes` of this rank's,
// whose begin is returned. Collective. Throws Error, with what is left in /dev/shm, where there is
// no room.
void* allocate_window(MPI_Comm comm, size_t bytes, MPI_Win& window);

// What /dev/shm has left: "12 MiB and 7 files more", or why that is not known.
std::string room_for_sharing();

// What all ranks must agree on, such as {"--seed", "1"}.
struct Setting {
  std::string name, value;
};

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
  // Ranks on this machine, this one's number among them, and the communicator of them.
  size_t node_size() const { return node_size_; }
  size_t node_rank() const { return node_rank_; }
  MPI_Comm node() const { return node_; }
  // "rank 3 on hostname"
  const std::string& name() const { return names_[rank_]; }
  const std::vector<std::string>& names() const { return names_; }  // of all ranks
  // The same of the ranks of a group.
  std::vector<std::string> names_of(MPI_Comm group) const;

  // True for the first rank of this machine that calls it, and false for the others: they fail
  // because the first did, and need not say so too.
  bool first_to_fail();
  // Throws UserError on all ranks where a rank has other settings than rank 0, with the first of
  // them that differs, both values and both ranks. Collective; messages have a fixed size until it
  // is known how long the ranks' texts are, so that it does not matter how much they differ.
  void require_same(const std::vector<Setting>& settings) const;
  // Have all ranks the same text? Collective.
  bool all_same(const std::string& text) const;
  // The numbers of rank 0, of rank 1, ... REQUIRES: all have as many. Collective.
  std::vector<uint64_t> all_gather(const std::vector<uint64_t>& own) const;

  // Ends all ranks at once with `status`. Whoever calls it first has said why on standard error.
  [[noreturn]] static void abort(int status);

 private:
  void find_names();
  // The length and the hash of each rank's text.
  struct Summary {
    uint64_t length, hash;
    friend bool operator==(const Summary&, const Summary&) = default;
  };
  std::vector<Summary> summaries_of(const std::string& text) const;
  // The text of rank `from`, which has this length.
  std::string text_of(size_t from, const std::string& own, uint64_t length) const;

  size_t rank_ = 0, size_ = 1, node_size_ = 1, node_rank_ = 0;
  std::vector<std::string> names_;  // of all ranks
  MPI_Comm node_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::atomic<int>* failures_ = nullptr;  // shared by the node
};

}  // namespace ladder
