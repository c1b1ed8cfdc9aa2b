// The ranks of a run: one process, or as many as mpirun has started.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/comm/mpi_communicator.h"

namespace ladder {

class Job {
 public:
  // Ranks that mpirun (Open MPI's or another with PMI) has started beside this one, itself
  // included; 1 if it was started alone.
  static size_t num_launched();

  // Joins the other ranks, if there are any.
  Job();

  size_t rank() const { return world_ ? world_->rank() : 0; }
  size_t size() const { return world_ ? world_->size() : 1; }
  size_t node_size() const { return world_ ? world_->node_size() : 1; }

  // UserError on a rank that was started with other flags than rank 0. Collective.
  void check_same_flags(int argc, const char* const* argv) const;
  // Makes the group of all ranks. Collective.
  void connect(bool shared_memory, const MpiOptions& options);

  // REQUIRES: connect().
  Communicator& communicator() { return *communicator_; }
  // Memory that collectives work on without copies; null where there is none.
  MemorySource* registered() { return node_memory_ ? &*node_memory_ : nullptr; }

  // Says `message` on standard error, unless another rank has said what went wrong first, and ends
  // all ranks with `status`. Returns only where this process is the only one.
  void fail(const std::string& message, int status);
  // "rank 3 on hostname: " where there are several, for messages; else "".
  std::string prefix() const { return world_ ? world_->name() + ": " : std::string(); }

 private:
  std::optional<MpiWorld> world_;
  std::optional<NodeMemory> node_memory_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace ladder
