// How an operation between ranks is called.
#pragma once

#include "common/comm/ledger.h"
#include "kernels/collective.h"

namespace ladder {

struct CallOptions {
  Purpose purpose = Purpose::control;    // the line of the ledger that the call counts in
  Reduction reduction = Reduction::sum;  // how all_reduce, reduce_scatter and reduce combine values
  bool background = false;  // whether it runs on the communicator's worker while the caller goes on
  bool by_data = false;     // of an all_to_all: its counts depend on what is computed
};

}  // namespace ladder
