// How an operation between ranks is called.
#pragma once

#include "common/comm/ledger.h"
#include "kernels/collective.h"

namespace ladder {

struct CallOptions {
  Purpose purpose = Purpose::control;
  Reduction reduction = Reduction::sum;
  bool background = false;
};

}  // namespace ladder
