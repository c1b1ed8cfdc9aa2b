#include "common/model/sublayer.h"

#include <cmath>

#include "kernels/runtime/cost.h"

namespace ladder {
namespace {

// The 2 L weights that write to the residual stream start smaller, so that its size at the end
// does not depend on L. [Radford19]
double residual_deviation(const Gpt2Config& config) {
  return kInitialDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
}

double weights_of(const Linear& linear) { return number_of(linear.in * linear.out); }

}  // namespace

BlockOperations in_all_sublayers(SublayerOperation::Index operation) {
  BlockOperations operations;
  for (size_t sublayer = 0; sublayer < kNumSublayers; ++sublayer) {
    operations.set(number_of_operation(sublayer, operation));
  }
  return operations;
}

std::vector<Sublayer> dense_sublayers(const Gpt2Config& config) {
  const size_t c = config.hidden, f = config.ffn_size();
  const double last = residual_deviation(config);
  return {{.index = kAttention,
           .names = {"ln_1", "qkv", "attention", "middle"},
           .group = "attn",
           .first = {"c_attn", c, 3 * c, TensorSplit::qkv_columns, kInitialDeviation},
           .second = {"c_proj", c, c, TensorSplit::rows, last},
           .core = Core::attention,
           .num_heads = config.num_heads},
          {.index = kMlp,
           .names = {"ln_2", "fc", "gelu", "out"},
           .group = "mlp",
           .first = {"c_fc", c, f, TensorSplit::columns, kInitialDeviation},
           .second = {"c_proj", f, c, TensorSplit::rows, last},
           .core = Core::gelu}};
}

std::vector<Sublayer> sublayers_of(const Gpt2Config& config, size_t block) {
  std::vector<Sublayer> sublayers = dense_sublayers(config);
  if (config.has_experts(block)) sublayers[kMlp].num_experts = config.experts.num_experts;
  return sublayers;
}

double product_flops(const Sublayer& sublayer, size_t num_tokens) {
  if (sublayer.num_experts > 0) return 0;
  const double linear = 2 * (weights_of(sublayer.first) + weights_of(sublayer.second));
  if (sublayer.core != Core::attention) return linear;
  // In each head q with k, and the probabilities with v.
  return linear + 4 * number_of(num_tokens) * number_of(sublayer.second.in);
}

double operation_flops(const Sublayer& sublayer, SublayerOperation::Index operation,
                       size_t num_tokens) {
  const Linear &first = sublayer.first, &second = sublayer.second;
  const double t = number_of(num_tokens);
  switch (operation) {
    case SublayerOperation::norm:
      return 8 * number_of(first.in);
    case SublayerOperation::first:
      return 2 * weights_of(first) + number_of(first.out);
    case SublayerOperation::core:
      if (sublayer.core == Core::gelu) return 8 * number_of(second.in);
      return 2 * number_of(second.in) * t + number_of(sublayer.num_heads) * t / 2;
    default:
      return 2 * weights_of(second) + 2 * number_of(second.out);
  }
}

}  // namespace ladder
