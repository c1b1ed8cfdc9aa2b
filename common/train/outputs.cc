#include "common/train/outputs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/io/dump_name.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/io/safetensors.h"
#include "common/model/weights.h"

namespace ladder {

namespace fs = std::filesystem;

void MetricsFile::write(const Step& step, const Memory& device_memory,
                        const TrafficEntries& communicated) {
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
  file_.write(line.dump() + "\n");
}

namespace {

[[noreturn]] void refuse_dump(const std::string& path, const std::string& why) {
  throw UserError(concat("--dump ", path, ": ", why));
}

}  // namespace

DumpFolder::DumpFolder(const std::string& path) {
  std::error_code error;
  for (fs::path at = path; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
    made_.push_back(at);
  }
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path)) {
    refuse_dump(path,
                concat("cannot make this folder: ", error ? error.message() : "it is a file"));
  }
}

DumpFolder::~DumpFolder() {
  for (const std::string& folder : made_) rmdir(folder.c_str());
}

DumpFolder::DumpFolder(const std::string& path, int64_t num_steps) : DumpFolder(path) {
  const auto refuse = [&](const std::string& why) { refuse_dump(path, why); };
  std::error_code error;
  folder_ = Descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.is_open()) refuse(concat("cannot be read: ", std::strerror(errno)));
  if (flock(folder_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    refuse("another run is writing there; name a folder for each");
  }
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename();
    if (step_of_dump(name).value_or(0) > static_cast<size_t>(num_steps)) {
      refuse(concat("has dumps of a longer run, such as ", quoted_name(name),
                    ", which would stay among the ", num_steps, num_steps == 1 ? " step" : " steps",
                    " of this one; remove them, or name another folder"));
    }
  }
  try {
    const PartialFile probe(path + "/" + dump_name(1));  // never committed
  } catch (const UserError& why) {
    refuse(why.what());
  }
}

OutputFiles::OutputFiles(const RunConfig& config, const std::vector<NamedFile>& more_outputs) {
  const auto open = [](const char* flag, auto& file, const std::string& path) {
    if (!path.empty()) named_by(flag, [&] { file.emplace(path); });
  };
  if (!config.dump.empty()) dump.emplace(config.dump, config.optimizer.num_steps);
  for (const NamedFile& output : more_outputs) {
    std::optional<PartialFile> probe;  // never committed
    open(output.flag, probe, output.path);
  }
  open("--trace", trace, config.trace);
  if (!config.export_to.empty()) exported.emplace(config.export_to, config.model);
  open("--metrics", metrics, config.metrics);
}

namespace {

std::vector<SafetensorsWriter::Tensor> dumped_tensors(const ModelDescription& model, DType dtype) {
  std::vector<SafetensorsWriter::Tensor> tensors = {{"loss", DType::fp64, {1}},
                                                    {"grad_norm", DType::fp64, {1}}};
  for (std::string_view kind : kDumpedKinds) {
    for (auto& tensor : tensors_of(model, dtype, concat(kind, "."))) tensors.push_back(tensor);
  }
  return tensors;
}

}  // namespace

void write_dump(const std::string& folder, int64_t step, const StepResult& result,
                const ModelDescription& model, DType dtype,
                const std::function<void(std::string_view kind, const TensorSink&)>& visit) {
  SafetensorsWriter writer(folder + "/" + dump_name(static_cast<size_t>(step)),
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
