#include "tools/state/checkpoints/weights.h"

#include <vector>

#include "common/checkpoint/reader.h"
#include "common/train/flags/inputs.h"
#include "common/train/run/export.h"

namespace ladder {

void export_weights(const std::string& from, const std::string& out) {
  CheckpointReader reader(from);
  const ModelConfig& model = reader.index().model;
  const Vocabulary vocabulary = vocabulary_of(reader.index(), from);
  ExportFolder folder(out, model);
  folder.write(vocabulary, [&](const TensorSink& sink) {
    for (const UnitSpec& unit : describe(model).units) {
      for (const ParameterSpec& parameter : unit.parameters) {
        const size_t n = parameter.shape.num_elements();
        std::vector<double> values(n);
        const TensorView all(values.data(), DType::fp64, DeviceType::cpu, parameter.shape);
        reader.read(concat(kParam, ".", parameter.name), {{0, n, n}, 0, n}, all.reshape({n}));
        sink(parameter, all);
      }
    }
  });
}

}  // namespace ladder
