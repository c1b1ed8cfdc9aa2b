#include "tools/state/logits/logits.h"

#include <deque>
#include <optional>

#include "common/io/path.h"
#include "common/model/adapter_config.h"
#include "common/model/model.h"
#include "common/model/published_config.h"
#include "common/model/weights.h"
#include "kernels/elementwise.h"
#include "lessons/15_expert_parallel/expert_layer.h"

namespace ladder {
namespace {

// Returns a flat buffer with the whole model. `adapters` is empty if it has none.
Tensor read_parameters(const std::string& folder, const std::string& adapters, const Layout& layout,
                       DType dtype, Memory& memory) {
  std::deque<WeightsFile> files;
  if (!adapters.empty()) files.push_back(WeightsFile::of_adapters(adapters, layout));
  files.emplace_back(folder, layout);
  Tensor flat(memory, Category::parameters, dtype, {layout.num_elements()});
  for (const Unit& unit : layout.units()) {
    for (const Parameter& p : unit.parameters) {
      const WeightsFile& file = files.front().has(p) ? files.front() : files.back();
      file.read(p, flat.view().elements(unit.offset + p.offset, p.shape));
    }
  }
  return flat;
}

void check_tokens(const std::vector<int32_t>& tokens, const ModelConfig& config) {
  if (tokens.empty() || tokens.size() > config.sequence_length) {
    throw UserError(concat("--tokens: ", tokens.size(), " tokens, expected from 1 to ",
                           config.sequence_length));
  }
  for (int32_t token : tokens) {
    if (token >= 0 && static_cast<size_t>(token) < config.vocab_size) continue;
    throw UserError(
        concat("--tokens: ", token, " is not in the vocabulary of ", config.vocab_size));
  }
}

}  // namespace

Logits logits_of(const std::string& folder, const std::vector<int32_t>& tokens, DType dtype,
                 const std::string& adapters) {
  ModelConfig config =
      named_by("--init", [&] { return read_published_config(folder + "/config.json"); });
  if (!adapters.empty()) {
    config.lora = named_by("--init-adapter", [&] { return read_adapter_config(adapters, config); });
  }
  check_tokens(tokens, config);
  const size_t vocab = config.vocab_size, length = tokens.size();
  Memory memory(DeviceType::cpu, "host", 0);
  Stream stream(DeviceType::cpu);
  const Layout layout(config, 1);
  const Tensor parameters = read_parameters(folder, adapters, layout, dtype, memory);
  const Activations activations(memory, layout, dtype, 1, length);
  const ModelWorkspace workspace(memory, layout, dtype, 1, length);
  const Tensor row(memory, Category::workspace, accumulation_dtype(dtype), {1, vocab});
  std::optional<ExpertLayer> experts;
  if (config.experts.num_experts > 0) {
    experts.emplace(memory, memory, layout, dtype, 1, length, ExpertLayer::Options());
  }

  const Model model(layout, parameters, TensorView(), TensorParallel{}, RecomputePlan{},
                    ContextParallel{}, experts ? &*experts : nullptr);
  model.forward(stream, activations, workspace,
                ConstTensorView(tokens.data(), DType::int32, DeviceType::cpu, {1, length}));
  Logits logits = {.vocab_size = vocab, .values = std::vector<double>(length * vocab)};
  const TensorView all(logits.values.data(), DType::fp64, DeviceType::cpu, {length, vocab});
  for (size_t i = 0; i < length; ++i) {
    model.logits(stream, row, activations, i);
    cast(stream, all.rows(i, 1), row);
  }
  stream.synchronize();
  return logits;
}

}  // namespace ladder
