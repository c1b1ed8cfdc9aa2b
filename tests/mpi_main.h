// What a test under mpirun knows of its surroundings.
#pragma once

#include <memory>

#include "common/comm/communicator.h"
#include "common/comm/mpi_transport.h"

namespace ladder::testing {

// The job this process is a rank of. Made by the shared main before the first test.
MpiWorld& world();

inline std::unique_ptr<Communicator> make_communicator(const MpiWorld& ranks,
                                                       NodeMemory* node_memory = nullptr,
                                                       const MpiOptions& options = {}) {
  return std::make_unique<Communicator>(MpiTransport::make_world(ranks, node_memory, options));
}

}  // namespace ladder::testing
