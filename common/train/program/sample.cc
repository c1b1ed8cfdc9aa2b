#include "common/train/program/sample.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "common/io/printable.h"
#include "common/model/model.h"
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

namespace {

// Returns a flat buffer with the whole model, made of the tensors that `visit` gives.
Tensor collected_parameters(const Layout& layout, DType dtype, Memory& memory, Stream& stream,
                            const std::function<void(const TensorSink&)>& visit) {
  Tensor flat(memory, Category::parameters, dtype, {layout.num_elements()});
  std::map<std::string, TensorView> missing;
  for (const Unit& unit : layout.units()) {
    for (const Parameter& p : unit.parameters) {
      missing[p.name] = flat.view().elements(unit.offset + p.offset, p.shape);
    }
  }
  visit([&](const ParameterSpec& parameter, ConstTensorView value) {
    const auto found = missing.find(parameter.name);
    if (found == missing.end()) {
      fail(concat("sample: ", parameter.name, " came twice, or the model has no such tensor"));
    }
    cast(stream, found->second, value);
    missing.erase(found);
  });
  if (!missing.empty()) fail(concat("sample: ", missing.begin()->first, " did not come"));
  return flat;
}

// Returns the tokens as text if they are bytes or if there is a tokenizer, and as numbers
// otherwise. The vocabulary may be larger than a text needs (--model gpt2 has 50,257 tokens): a
// token from 256 on is not a byte.
std::string text_of(std::span<const int32_t> tokens, const Vocabulary& vocabulary) {
  std::string text;
  for (int32_t token : tokens) {
    if (vocabulary.is_text) {
      text += token < 256 ? static_cast<char>(token) : '?';
    } else if (vocabulary.tokenizer) {
      text += vocabulary.tokenizer->text_of(token);
    } else {
      text += concat(text.empty() ? "" : " ", token);
    }
  }
  return printable(text);
}

}  // namespace

std::string sample_text(const RunConfig& config, const Vocabulary& vocabulary, int32_t first,
                        Memory& memory, const std::function<void(const TensorSink&)>& visit,
                        const MixtureMaker& mixture, std::span<const int32_t> prompt) {
  const Layout layout(config.model, 1);
  Stream stream(memory.device());
  const Tensor parameters = collected_parameters(layout, config.dtype, memory, stream, visit);
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  if (prompt.empty()) tokens.push_back(first);
  const size_t context =
      std::min(config.model.sequence_length, tokens.size() - 1 + config.sample_tokens);
  const auto experts = mixture ? mixture(layout, memory, context) : nullptr;
  const Model model(layout, parameters, TensorView(), {}, {}, {}, experts.get());

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

  return text_of(std::span(tokens).subspan(prompt.empty() ? 1 : 0), vocabulary);
}

}  // namespace ladder
