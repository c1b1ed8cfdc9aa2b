// What a test under mpirun knows of its surroundings.
#pragma once

#include "common/comm/mpi_world.h"

namespace ladder::testing {

// The job this process is a rank of. Made by the shared main before the first test.
MpiWorld& world();

}  // namespace ladder::testing
