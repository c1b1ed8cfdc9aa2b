#include "common/schedule/cut.h"

#include <algorithm>
#include <numeric>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

std::string join(const std::vector<size_t>& numbers) {
  std::string text;
  for (size_t number : numbers) text += concat(text.empty() ? "" : ",", number);
  return text;
}

// Blocks of each stage of the cheapest cut, where the position embedding is no stage of its own.
std::vector<size_t> best_layers(const Gpt2Config& config, size_t num_stages) {
  std::vector<size_t> ends = cut_units(unit_flops(config), num_stages);
  for (size_t& unit : ends) unit = unit < 2 ? 0 : unit - 2;
  ends.push_back(config.num_layers);
  std::adjacent_difference(ends.begin(), ends.end(), ends.begin());
  return {ends.begin() + 1, ends.end()};
}

}  // namespace

std::vector<double> unit_flops(const Gpt2Config& config) {
  const double c = config.hidden, t = config.sequence_length, v = config.vocab_size;
  std::vector<double> flops(config.num_layers + 3, 3 * (24 * c * c + 4 * t * c));
  flops[0] = flops[1] = 0;
  flops.back() = 3 * 2 * c * v;
  return flops;
}

std::vector<size_t> cut_at_layers(const Gpt2Config& config, const std::vector<size_t>& layers,
                                  size_t num_stages) {
  const size_t available = config.num_layers, most = available + 2;
  if (num_stages > most) {
    throw UserError(concat("--stage-layers: at most ", most, " stages for ",
                           counted(available, "layer"), ", not ", num_stages));
  }
  // A double, so that absurd numbers do not wrap around.
  const double sum = std::accumulate(layers.begin(), layers.end(), 0.0);
  const bool middle_is_empty =
      layers.size() > 2 && std::count(layers.begin() + 1, layers.end() - 1, size_t{0}) > 0;
  if (layers.size() != num_stages || sum != available || middle_is_empty) {
    throw UserError(concat("--stage-layers ", join(layers), ": ", counted(sum, "layer"), " on ",
                           counted(layers.size(), "stage"), "; the model has ",
                           counted(available, "layer"), ", the pipeline ",
                           counted(num_stages, "stage"),
                           ", and only the first and the last may have none; for example ",
                           "--stage-layers ", join(best_layers(config, num_stages))));
  }
  std::vector<size_t> cut(num_stages, 0);
  for (size_t s = 1, end = 2; s < num_stages; ++s) cut[s] = end += layers[s - 1];
  return cut;
}

}  // namespace ladder
