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
  double launches = 1;      // how many kernels, each with its launch and its gap
  // What these move beyond the lessons' kernel. Beside a product: all bytes of the other kernels,
  // as a multiple of the bytes of its result. Otherwise: the bytes beyond ours, as a multiple of
  // ours.
  double more_bytes = 0;
};

struct OtherProgram {
  std::string name = {};                     // "megatron-2022"; empty: the lessons
  std::string about = {};                    // the sentence of its file
  std::string device = {};                   // the one that its values are for; empty: any
  std::vector<KernelsInstead> kernels = {};  // sorted by name; of all others it runs one
  // If its attention is not one kernel: the bytes that softmax, mask and dropout move for each
  // score of a query and a key. 0: it is one, with the cluster's efficiencies.
  double attention_forward_score_bytes = 0, attention_backward_score_bytes = 0;
  bool recomputes_attention = false;  // such a program's backward first runs attention again
  // Whether its host waits until all kernels have run before it queues a pass, the forward or the
  // backward of a micro-batch. Else it runs ahead, and queues kernels while others run.
  bool host_waits_for_passes = false;

  const KernelsInstead& instead_of(std::string_view kernel) const {
    static const KernelsInstead one;
    const auto found = std::ranges::lower_bound(kernels, kernel, {}, &KernelsInstead::kernel);
    return found != kernels.end() && found->kernel == kernel ? *found : one;
  }
};

}  // namespace ladder
