#include "common/train/outputs.h"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "common/io/safetensors.h"
#include "common/train/report.h"

namespace ladder {

void MetricsFile::write(const Step& step, const Memory& device_memory,
                        const Ledger::Entries& communicated) {
  nlohmann::ordered_json line;
  line["step"] = step.step;
  line["loss"] = step.result.loss;
  line["grad_norm"] = step.result.grad_norm;
  line["learning_rate"] = step.result.learning_rate;
  if (step.result.loss_scale) {
    line["loss_scale"] = *step.result.loss_scale;
    line["skipped"] = step.result.skipped;
  }
  line["step_ms"] = step.step_ms;
  line["tokens_per_second"] = step.tokens_per_second;
  if (step.mfu) line["mfu"] = *step.mfu;
  if (step.validation_loss) line["validation_loss"] = *step.validation_loss;
  for (Category category : kCategories) {
    line["peak_device_bytes"][std::string(name_of(category))] = device_memory.peak()[category];
  }
  nlohmann::ordered_json& collectives = line["collectives"] = nlohmann::ordered_json::object();
  for (const auto& [key, traffic] : communicated) {
    const Traffic& before = before_[key];
    collectives[name_of(key, '.')] = {
        {"calls", traffic.calls - before.calls},
        {"payload_bytes", traffic.payload_bytes - before.payload_bytes},
        {"busy_ms", 1e3 * (traffic.busy_seconds - before.busy_seconds)},
        {"exposed_ms", 1e3 * (traffic.exposed_seconds - before.exposed_seconds)}};
  }
  before_ = communicated;
  const std::string text = line.dump() + "\n";
  file_.write(std::as_bytes(std::span(text)));
}

void prepare_dump_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    throw UserError(concat("--dump ", folder, ": cannot make this folder",
                           error ? ": " + error.message() : std::string(": it is a file")));
  }
  check_writable(folder + "/step_000001.safetensors");
}

void check_writable(const std::string& path) {
  if (!path.empty()) PartialFile probe(path);  // removed again, never committed
}

namespace {

std::vector<SafetensorsWriter::Tensor> dumped_tensors(const ModelDescription& model, DType dtype) {
  std::vector<SafetensorsWriter::Tensor> tensors = {{"loss", DType::fp64, {1}},
                                                    {"grad_norm", DType::fp64, {1}}};
  for (std::string_view kind : kDumpedKinds) {
    for (const UnitSpec& unit : model.units) {
      for (const ParameterSpec& parameter : unit.parameters) {
        std::vector<size_t> shape;
        for (size_t dim = 0; dim < parameter.shape.num_dims(); ++dim) {
          shape.push_back(parameter.shape[dim]);
        }
        tensors.push_back({concat(kind, ".", parameter.name), dtype, shape});
      }
    }
  }
  return tensors;
}

}  // namespace

void write_dump(const std::string& folder, int64_t step, const StepResult& result,
                const ModelDescription& model, DType dtype,
                const std::function<void(std::string_view kind, const TensorSink&)>& visit) {
  SafetensorsWriter writer(
      folder + format("/step_%06lld.safetensors", static_cast<long long>(step)),
      dumped_tensors(model, dtype));
  for (const double& scalar : {result.loss, result.grad_norm}) {
    writer.write(ConstTensorView(&scalar, DType::fp64, DeviceType::cpu, {1}));
  }
  for (std::string_view kind : kDumpedKinds) {
    visit(kind, [&](const ParameterSpec&, ConstTensorView tensor) { writer.write(tensor); });
  }
  writer.finish();
}

}  // namespace ladder
