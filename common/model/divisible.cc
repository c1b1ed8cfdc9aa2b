#include "common/model/divisible.h"

#include <algorithm>

#include "common/model/sublayer.h"
#include "kernels/runtime/check.h"

namespace ladder {

bool can_split(const ModelConfig& config, size_t tensor_size) {
  for (const Sublayer& sublayer : dense_sublayers(config)) {
    const size_t heads = sublayer.num_heads, shared = sublayer.key_value_heads;
    if (heads % tensor_size != 0 || sublayer.second.in % tensor_size != 0) return false;
    if (shared > 0 && shared % tensor_size != 0 && tensor_size % shared != 0) return false;
  }
  for (const size_t rows : {config.vocab_size, config.num_outputs()}) {
    if ((rows + tensor_size - 1) / tensor_size * (tensor_size - 1) >= rows) return false;
  }
  return true;
}

void check_split(const ModelConfig& config, size_t tensor_size, const std::string& asked) {
  if (can_split(config, tensor_size)) return;
  size_t works = std::min(tensor_size, config.num_heads);
  while (!can_split(config, works)) --works;
  const size_t shared = config.num_key_value_heads();
  throw UserError(concat(asked, ": ", counted(config.num_heads, "head"),
                         shared == config.num_heads ? "" : concat(" (", shared, " of k and v)"),
                         config.ffn == 0 ? "" : concat(", an inner layer of ", config.ffn),
                         " and a vocabulary of ", counted(config.vocab_size, "token"),
                         config.labels.empty() ? "" : concat(", ", config.num_outputs(), " labels"),
                         " cannot be split among ", counted(tensor_size, "rank"), "; ", works,
                         " would do"));
}

}  // namespace ladder
