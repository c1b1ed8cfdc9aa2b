#include "common/train/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/io/printable.h"
#include "common/model/gpt2.h"
#include "kernels/elementwise.h"
#include "kernels/runtime/random.h"

namespace ladder {

int32_t draw_token(std::span<const double> logits, double temperature, size_t top_k,
                   uint64_t word) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t kept = top_k == 0 ? order.size() : std::min(top_k, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](int32_t a, int32_t b) {
                      const double x = logits[static_cast<size_t>(a)];
                      const double y = logits[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  if (temperature == 0) return order[0];
  std::vector<double> cumulative(kept);
  double total = 0;
  for (size_t i = 0; i < kept; ++i) {
    const double below_largest =
        logits[static_cast<size_t>(order[i])] - logits[static_cast<size_t>(order[0])];
    cumulative[i] = total += std::exp(below_largest / temperature);
  }
  const double drawn = static_cast<double>(word >> 11) * 0x1p-53 * total;  // [0, total)
  const auto at = std::upper_bound(cumulative.begin(), cumulative.end() - 1, drawn);
  return order[static_cast<size_t>(at - cumulative.begin())];
}

std::string sample_text(const RunConfig& config, bool is_text, Memory& memory,
                        const std::function<void(TensorKind, const TensorSink&)>& visit) {
  const Layout layout(config.model, 1);
  Stream stream(memory.device());
  const Tensor parameters(memory, Category::parameters, config.dtype, {layout.num_elements()});
  size_t unit = 0, index = 0;  // of the parameter that comes next, in layout order
  visit(TensorKind::param, [&](const Parameter& parameter, ConstTensorView value) {
    const size_t offset = layout.unit(unit).offset + parameter.offset;
    cast(stream, parameters.view().elements(offset, value.shape()), value);
    if (++index == layout.unit(unit).parameters.size()) {
      ++unit;
      index = 0;
    }
  });
  const Gpt2 model(layout, parameters, TensorView());

  // A line break begins a text; GPT-2's own vocabulary has a token for it, the last.
  std::vector<int32_t> tokens = {is_text ? '\n'
                                         : static_cast<int32_t>(config.model.vocab_size - 1)};
  const size_t context = std::min(config.model.sequence_length, config.sample_tokens);
  Activations activations(memory, layout, config.dtype, 1, context);
  const ModelWorkspace workspace(memory, layout, config.dtype, 1, context);
  const size_t vocab = config.model.vocab_size;
  const Tensor logits(memory, Category::workspace, config.accumulation(), {1, vocab});
  std::vector<double> host(vocab);
  const TensorView host_view(host.data(), DType::fp64, DeviceType::cpu, {1, vocab});
  for (size_t i = 0; i < config.sample_tokens; ++i) {
    const size_t length = std::min(tokens.size(), context);
    activations.resize(1, length);
    const int32_t* const last = tokens.data() + tokens.size() - length;
    model.forward(stream, activations, workspace,
                  ConstTensorView(last, DType::int32, DeviceType::cpu, {1, length}));
    model.logits(stream, logits, activations, length - 1);
    cast(stream, host_view, logits);
    stream.synchronize();
    const uint64_t word = random_word(random_key(config.seed, "sample"), i, 0);
    tokens.push_back(draw_token(host, config.temperature, config.top_k, word));
  }

  std::string text;
  for (auto token = tokens.begin() + 1; token != tokens.end(); ++token) {
    if (is_text) {
      text += static_cast<char>(*token);
    } else {
      text += concat(text.empty() ? "" : " ", *token);
    }
  }
  return is_text ? printable(text) : text;
}

}  // namespace ladder
