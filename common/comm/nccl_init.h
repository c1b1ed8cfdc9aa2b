// How NCCL's communicators come to be.
#pragma once

#include <cstddef>

#include "common/comm/transport.h"

struct ncclComm;

namespace ladder {

struct NcclOptions {
  // How many thread blocks of a communicator may run at once: each takes a multiprocessor. 0: NCCL
  // decides. Source: maxCTAs of ncclConfig_t.
  size_t max_thread_blocks = 0;
  // Whether a group's communicator is split off from that of its parent, by ncclCommSplit.
  // Otherwise its ranks find each other anew.
  bool split = true;
  // Whether registered buffers become symmetric windows where they can (nccl_memory.h).
  bool windows = false;
};

// Makes NCCL's communicator of the ranks of `host`. Collective. Throws an Error if NCCL fails.
ncclComm* make_nccl(Transport& host, const NcclOptions& options);

// Makes the communicator of those ranks of `parent` that give the same color, in rank order. A rank
// that is alone with its color gets null. Collective over the parent, whose operations the host
// waits for first. Throws an Error if NCCL fails. REQUIRES: `host` has the ranks of the new group.
ncclComm* split_nccl(ncclComm* parent, size_t color, const Transport& host);

}  // namespace ladder
