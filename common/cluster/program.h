// What a program other than the lessons' does differently on the same device: --program.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

// What it runs where the lessons run one kernel.
struct KernelsInstead {
  std::string kernel = {};  // as in KernelCall
  double launches = 1;      // so many kernels, of which each has its launch and its gap
  // The bytes that these move beyond what the lessons' kernel moves, as a multiple: of the bytes of
  // a product's result, or of all bytes that a kernel without a product moves.
  double more_bytes = 0;
};

struct OtherProgram {
  std::string name = {};                     // "megatron-2022"; empty: the lessons
  std::vector<KernelsInstead> kernels = {};  // sorted by name; of all others it runs one
  // If its attention is not one kernel: the bytes that softmax, mask and dropout move for each
  // score of a query and a key. 0: it is one, with the cluster's efficiencies.
  double attention_forward_score_bytes = 0, attention_backward_score_bytes = 0;
  bool recomputes_attention = false;  // such a program's backward first runs attention again
  // Whether its host waits for the device before each pass, the forward or backward of a
  // micro-batch, and before the optimizer. Else it runs ahead, and queues kernels while others run.
  bool host_waits_for_passes = false;

  const KernelsInstead& instead_of(std::string_view kernel) const {
    static const KernelsInstead one;
    const auto found = std::ranges::lower_bound(kernels, kernel, {}, &KernelsInstead::kernel);
    return found != kernels.end() && found->kernel == kernel ? *found : one;
  }
};

}  // namespace ladder
