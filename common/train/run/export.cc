#include "common/train/run/export.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/checkpoint/folder.h"
#include "common/io/path.h"
#include "common/io/safetensors.h"
#include "common/model/adapter_config.h"
#include "common/model/lora.h"
#include "common/model/published_config.h"
#include "common/model/weights.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

std::string generation_config(std::optional<int32_t> end) {
  nlohmann::ordered_json json;
  for (const char* token : {"bos_token_id", "eos_token_id"}) {
    json[token] = end ? nlohmann::ordered_json(*end) : nlohmann::ordered_json(nullptr);
  }
  return json.dump(2) + "\n";
}

// Throws UserError if transformers has no such model, or if its files would lie in a checkpoint.
void require_exportable(const std::string& path, const ModelConfig& config) {
  if (!config.labels.empty()) {
    throw UserError(concat(path, ": a classification head is not exported; --checkpoint keeps it"));
  }
  require_publishable(path, config);
  named_by(concat(path, ":").c_str(), [&] { check_adapter_files(config); });
  const std::string checkpoint = checkpoint_around(path);
  if (checkpoint.empty()) return;
  throw UserError(concat(path, ": lies in the checkpoint ", checkpoint, "; name another place"));
}

// Throws UserError unless the disk has room for the tensors beside this path.
void require_space(const std::string& path, const std::string& partial,
                   const std::vector<SafetensorsWriter::Tensor>& tensors) {
  std::error_code error;
  uint64_t needed = 0;
  for (const SafetensorsWriter::Tensor& tensor : tensors) {
    uint64_t bytes = sizeof(float);
    for (size_t extent : tensor.shape) bytes *= extent;
    needed += bytes;
  }
  const uint64_t available = std::filesystem::space(partial, error).available;
  if (error || needed <= available) return;  // a file system that does not say
  throw UserError(concat(path, ": the model takes ", human_bytes(needed), ", and the disk has ",
                         human_bytes(available), " left"));
}

// Returns whether the file has the parameter: with adapters it has nothing else.
bool is_exported(const ModelConfig& config, const std::string& parameter) {
  return !config.lora || is_adapter(parameter);
}

// Returns the tensors of the file. A Llama's names have the prefix that transformers gives them. A
// GPT-2's lack it, as published, all or none; a classifier's own weight never has it, so beside
// that one the others need it.
std::vector<SafetensorsWriter::Tensor> exported_tensors(const ModelConfig& config) {
  auto tensors = tensors_of(describe(config), DType::fp32);
  if (config.lora) {
    std::erase_if(tensors, [](const auto& tensor) { return !is_adapter(tensor.name); });
    for (auto& tensor : tensors) tensor.name.insert(0, adapter_prefix(config));
    return tensors;
  }
  if (config.is_gpt2() && !config.untied) return tensors;
  for (SafetensorsWriter::Tensor& tensor : tensors) {
    if (tensor.name == "lm_head.weight") continue;
    tensor.name.insert(0, config.is_gpt2() ? "transformer." : "model.");
  }
  return tensors;
}

}  // namespace

ExportFolder::ExportFolder(const std::string& path, const ModelConfig& config,
                           const std::string& base)
    : config_(config), base_(base), folder_(named_by("--export", [&] {
        require_exportable(path, config);
        return PartialFolder(path);
      })) {
  named_by("--export", [&] { require_space(path, folder_ / "", exported_tensors(config)); });
}

void ExportFolder::write(const Vocabulary& vocabulary,
                         const std::function<void(const TensorSink&)>& visit) {
  const std::optional<Tokenizer>& tokenizer = vocabulary.tokenizer;
  const std::optional<int32_t> end = vocabulary.end_of_text;
  named_by("--export", [&] {
    write_weights(visit);
    if (config_.lora) {
      write_text(kAdapterConfig, adapter_config(config_, base_));
      return folder_.commit();
    }
    write_text("config.json", published_config(config_, end));
    write_text("generation_config.json", generation_config(end));
    if (vocabulary.is_text || tokenizer) {
      write_text("tokenizer.json",
                 tokenizer ? tokenizer->file() : byte_tokenizer(config_.vocab_size));
      const std::string end_text = tokenizer && end ? tokenizer->text_of(*end) : "";
      write_text("tokenizer_config.json",
                 tokenizer_config(config_.sequence_length, end_text.empty() ? nullptr : &end_text));
    }
    folder_.commit();
  });
}

void ExportFolder::write_text(const std::string& name, const std::string& text) const {
  PartialFile file(folder_ / name);
  file.write(text);
  file.commit();
}

void ExportFolder::write_weights(const std::function<void(const TensorSink&)>& visit) const {
  const std::vector<SafetensorsWriter::Tensor> tensors = exported_tensors(config_);
  SafetensorsWriter writer(folder_ / (config_.lora ? kAdapterWeights : "model.safetensors"),
                           tensors);
  Stream stream(DeviceType::cpu);
  std::vector<float> values;
  size_t next = 0;
  visit([&](const ParameterSpec& parameter, ConstTensorView tensor) {
    if (!is_exported(config_, parameter.name)) return;
    check(next < tensors.size() && tensors[next++].name.ends_with(parameter.name),
          "ExportFolder::write: parameters do not come in the model's order");
    values.resize(tensor.num_elements());
    const TensorView rounded(values.data(), DType::fp32, DeviceType::cpu, tensor.shape());
    cast(stream, rounded, tensor);
    stream.synchronize();
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
      throw Error(concat("--export: ", parameter.name, " has a number that fp32 cannot hold"));
    }
    writer.write(rounded);
  });
  writer.finish();
}

const char* written_text(const ModelConfig& config, const Vocabulary& vocabulary) {
  if (config.lora) return ": the adapters are written; tools/checkpoint merge adds them to --init";
  return vocabulary.is_text || vocabulary.end_of_text
             ? ": written"
             : ": written; no token is known to end a text (--tokenizer can name it)";
}

}  // namespace ladder
