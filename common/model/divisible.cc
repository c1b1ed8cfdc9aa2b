#include "common/model/divisible.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/io/printable.h"
#include "common/model/sublayer.h"
#include "kernels/runtime/check.h"

namespace ladder {

namespace {

// Returns what of the model so many ranks cannot split.
std::vector<std::string> unsplit_by(const ModelConfig& config, size_t ranks) {
  std::vector<std::string> found;
  const auto add = [&](const std::string& what) {
    if (std::ranges::find(found, what) == found.end()) found.push_back(what);
  };
  for (const Sublayer& sublayer : dense_sublayers(config)) {
    const size_t heads = sublayer.num_heads, shared = sublayer.key_value_heads;
    if (heads % ranks != 0) add(counted(heads, "head"));
    if (shared != heads && shared % ranks != 0 && ranks % shared != 0) {
      add(counted(shared, "head") + " of k and v");
    }
    const bool is_mlp = heads == 0;
    if (is_mlp && sublayer.second.in % ranks != 0) {
      add(concat("an inner layer of ", sublayer.second.in));
    }
  }
  const auto leaves_none = [&](size_t rows) {
    return (rows + ranks - 1) / ranks * (ranks - 1) >= rows;
  };
  if (leaves_none(config.vocab_size)) {
    add(concat("a vocabulary of ", counted(config.vocab_size, "token")));
  }
  if (!config.labels.empty() && leaves_none(config.num_outputs())) {
    add(concat(config.num_outputs(), " labels"));
  }
  return found;
}

}  // namespace

bool can_split(const ModelConfig& config, size_t tensor_size) {
  return unsplit_by(config, tensor_size).empty();
}

void check_split(const ModelConfig& config, size_t tensor_size, const std::string& asked) {
  const std::vector<std::string> unsplit = unsplit_by(config, tensor_size);
  if (unsplit.empty()) return;
  size_t works = std::min(tensor_size, config.num_heads);
  while (!can_split(config, works)) --works;
  throw UserError(concat(asked, ": ", listed(unsplit, " and "), " cannot be split among ",
                         counted(tensor_size, "rank"), "; ", works, " would do"));
}

}  // namespace ladder
