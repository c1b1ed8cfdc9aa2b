// How data that lie on a device travel between ranks.
#pragma once

namespace ladder {

enum class Transport {
  automatic,  // NCCL where every rank has a device of its own, else staged
  nccl,
  staged  // through host memory
};

}  // namespace ladder
