#include "tools/state/checkpoints/merge.h"

#include <filesystem>
#include <map>
#include <vector>

#include "common/io/path.h"
#include "common/model/adapter_config.h"
#include "common/model/lora.h"
#include "common/model/published_config.h"
#include "common/model/weights.h"
#include "common/train/run/export.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"

namespace ladder {
namespace {

// Numbers of a tensor, in fp64.
struct Numbers {
  std::vector<double> values;
  Shape shape;
  TensorView view() { return {values.data(), DType::fp64, DeviceType::cpu, shape}; }
};

Numbers read(const WeightsFile& file, const Parameter& parameter) {
  Numbers numbers = {std::vector<double>(parameter.full_shape.num_elements()),
                     parameter.full_shape};
  file.read(parameter, numbers.view());
  return numbers;
}

Vocabulary vocabulary_in(const std::string& folder) {
  Vocabulary vocabulary;
  std::error_code error;
  const std::string path = folder + "/tokenizer.json";
  if (std::filesystem::exists(path, error)) vocabulary.tokenizer.emplace(path);
  if (const auto end = published_end_of_text(folder + "/config.json")) {
    vocabulary.end_of_text = static_cast<int32_t>(*end);
  }
  return vocabulary;
}

}  // namespace

void merge_adapter(Stream& stream, TensorView weight, TensorView a, ConstTensorView b,
                   double factor, bool out_first) {
  scale(stream, a, a, factor);
  if (out_first) {
    matmul(stream, weight, b, a, {.accumulate = true});
  } else {
    matmul(stream, weight, a, b, {.transpose_a = true, .transpose_b = true, .accumulate = true});
  }
}

void merge(const std::string& base, const std::string& adapters, const std::string& out) {
  const ModelConfig model = read_published_config(base + "/config.json");
  ModelConfig adapted = model;
  adapted.lora = read_adapter_config(adapters, model);
  const Layout layout(adapted, 1);
  const WeightsFile weights(base, Layout(model, 1));
  const WeightsFile factors = WeightsFile::of_adapters(adapters, layout);
  std::map<std::string, const Parameter*> parameters;
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) parameters[parameter.name] = &parameter;
  }
  ExportFolder folder(out, model);
  Stream stream(DeviceType::cpu);
  folder.write(vocabulary_in(base), [&](const TensorSink& sink) {
    for (const UnitSpec& unit : describe(model).units) {
      for (const ParameterSpec& spec : unit.parameters) {
        Numbers weight = read(weights, *parameters.at(spec.name));
        const std::string layer = spec.name.substr(0, spec.name.rfind('.'));
        const auto a = parameters.find(layer + ".lora_A.weight");
        if (spec.name.ends_with(".weight") && a != parameters.end()) {
          Numbers thin = read(factors, *a->second);
          Numbers tall = read(factors, *parameters.at(layer + ".lora_B.weight"));
          merge_adapter(stream, weight.view(), thin.view(), tall.view(), adapted.lora->factor(),
                        !model.is_gpt2());
        }
        stream.synchronize();
        sink(spec, weight.view());
      }
    }
  });
}

}  // namespace ladder
