#include "common/train/flags/attention_choices.h"

#include "kernels/cudnn_attention.h"

namespace ladder {

AttentionKernel parse_attention_kernel(const std::string& name) {
  if (name == "own") return AttentionKernel::own;
  if (name == "cudnn") return AttentionKernel::cudnn;
  throw UserError(concat("--attention-kernel ", name, ": expected own or cudnn"));
}

void check_attention_kernel(const RunConfig& config, const ProcessGrid& grid, bool is_virtual) {
  if (config.attention_kernel == AttentionKernel::own) return;
  try {
    if (is_virtual) throw UserError("nobody has measured it for --device virtual");
    if (grid.context_size > 1) {
      throw UserError(
          "cuDNN has no attention of some queries to some keys, as ranks that share sequences need "
          "it");
    }
    if (config.model.is_masked()) {
      throw UserError("with --objective masked nobody has tried it; leave one of the two out");
    }
    CudnnAttention::require(config.device, config.dtype, config.model.head_columns());
  } catch (const UserError& refusal) {
    throw UserError(concat("--attention-kernel cudnn: ", refusal.what()));
  }
}

void check_objective(const RunConfig& config, const ProcessGrid& grid, const Cluster* cluster) {
  if (!config.model.is_masked()) return;
  if (grid.context_size > 1) {
    throw UserError(
        "--objective masked: ranks that share sequences pass on keys for a causal mask; take "
        "--context-parallel-size 1");
  }
  if (cluster != nullptr && cluster->program.attention_forward_score_bytes > 0) {
    throw UserError("--objective masked: the program's attention was counted with a causal mask");
  }
}

}  // namespace ladder
