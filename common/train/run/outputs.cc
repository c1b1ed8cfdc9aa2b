#include "common/train/run/outputs.h"

#include <filesystem>
#include <random>
#include <vector>

#include "common/io/dump_name.h"
#include "common/io/event_file.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/io/safetensors.h"
#include "common/model/weights.h"
#include "common/optimizer/rule.h"
#include "common/train/report/report.h"

namespace ladder {

namespace fs = std::filesystem;

DumpFolder::DumpFolder(const std::string& path, int64_t num_steps) : folder_(path, "--dump") {
  // Never committed: it is refused if, say, a folder has the name of the first dump.
  named_by("--dump", [&] { return PartialFile(path + "/" + dump_name(1)); });
  for (const std::string& name : folder_.names()) {
    if (step_of_dump(name).value_or(0) > static_cast<size_t>(num_steps)) {
      folder_.refuse(concat("has dumps of a longer run, such as ", quoted_name(name),
                            ", which would stay among the ", counted(num_steps, "step"),
                            " of this one; remove them, or name another folder"));
    }
  }
}

std::string new_run_mark() {
  std::random_device random;
  return format("%08x%08x", random(), random());
}

std::set<std::string> curves_of(const RunConfig& config) {
  std::set<std::string> paths;
  for (const std::string& path : {config.metrics, config.tensorboard}) {
    if (!path.empty()) paths.insert(whole_path(path));
  }
  return paths;
}

namespace {

// Returns whether a run has written curves to the file of --metrics or the folder of --tensorboard.
bool has_curves(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return fs::file_size(path, error) > 0;
  if (!fs::is_directory(path, error)) return false;
  fs::directory_iterator at(path, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    if (is_event_file(at->path().filename().string())) return true;
  }
  return false;
}

// Throws UserError if the run would begin curves anew that belong to checkpoints somewhere else.
void check_curves(const RunConfig& config, const std::set<std::string>& begun) {
  for (const auto& [flag, path] :
       {std::pair("--metrics", config.metrics), {"--tensorboard", config.tensorboard}}) {
    if (path.empty() || begun.contains(whole_path(path)) || !has_curves(path)) continue;
    throw UserError(concat(flag, " ", path, ": has the curves of an earlier run, but --resume ",
                           "finds no checkpoint of it in --checkpoint ", config.checkpoint.path,
                           "; name the folder that has it, or another place for the curves"));
  }
}

}  // namespace

OutputFiles::OutputFiles(const RunConfig& config, int64_t resumed_step,
                         const std::set<std::string>& begun, const std::string& run) {
  if (config.checkpoint.resume && resumed_step == 0) check_curves(config, begun);
  const auto open = [](const char* flag, auto& file, const std::string& path) {
    if (!path.empty()) named_by(flag, [&] { file.emplace(path); });
  };
  if (!config.dump.empty()) dump.emplace(config.dump, config.optimizer.num_steps);
  if (!config.tensorboard.empty()) {
    // A run that resumes and finds no checkpoint takes the place of the one that wrote none.
    const bool goes_on = config.checkpoint.resume || resumed_step > 0;
    board.emplace(config.tensorboard, goes_on ? std::optional(resumed_step) : std::nullopt, run);
  }
  {
    std::optional<PartialFile> probe;  // never committed
    open("--draw", probe, config.draw);
  }
  open("--trace", trace, config.trace);
  if (!config.export_to.empty()) exported.emplace(config.export_to, config.model, config.init);
  if (config.metrics.empty()) return;
  named_by("--metrics", [&] { metrics.emplace(config.metrics, resumed_step, run); });
}

namespace {

std::vector<SafetensorsWriter::Tensor> dumped_tensors(const ModelDescription& model, DType dtype,
                                                      const OptimizerConfig& optimizer) {
  std::vector<SafetensorsWriter::Tensor> tensors = {{"loss", DType::fp64, {1}},
                                                    {"grad_norm", DType::fp64, {1}}};
  for (std::string_view kind : kDumpedKinds) {
    const auto is_kept = [&](const ParameterSpec& p) { return keeps(optimizer, kind, p); };
    for (auto& tensor : tensors_of(model, dtype, concat(kind, "."), is_kept)) {
      tensors.push_back(tensor);
    }
  }
  return tensors;
}

}  // namespace

void write_dump(const std::string& folder, int64_t step, const StepResult& result,
                const ModelDescription& model, DType dtype,
                const std::function<void(std::string_view kind, const TensorSink&)>& visit,
                const OptimizerConfig& optimizer) {
  if (folder.empty()) {
    for (std::string_view kind : kDumpedKinds) visit(kind, nullptr);
    return;
  }
  named_by("--dump", [&] {
    SafetensorsWriter writer(folder + "/" + dump_name(static_cast<size_t>(step)),
                             dumped_tensors(model, dtype, optimizer));
    for (const double& scalar : {result.loss, result.grad_norm}) {
      writer.write(ConstTensorView(&scalar, DType::fp64, DeviceType::cpu, {1}));
    }
    for (std::string_view kind : kDumpedKinds) {
      visit(kind, [&](const ParameterSpec&, ConstTensorView tensor) { writer.write(tensor); });
    }
    writer.finish();
  });
}

}  // namespace ladder
