// Adapters in files as Hugging Face's peft reads and writes them: a folder with adapter_config.json
// and adapter_model.safetensors.
#pragma once

#include <string>

#include "common/model/config.h"

namespace ladder {

inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterWeights = "adapter_model.safetensors";

// The prefix of a parameter's name in such a file: of GPT-2, and of the other families.
inline constexpr const char* kGpt2AdapterPrefix = "base_model.model.transformer.";
inline constexpr const char* kAdapterPrefix = "base_model.model.model.";
// Returns the prefix of this model's family.
std::string adapter_prefix(const ModelConfig& model);

// Throws a UserError unless such a folder can have the model's adapters: not those of experts.
void check_adapter_files(const ModelConfig& model);

// Returns the text of adapter_config.json for the model's adapters. `base` names the model that
// they were trained for, by its path or name; "" if that is not known. REQUIRES: model.lora.
std::string adapter_config(const ModelConfig& model, const std::string& base);

// Reads the adapter_config.json in a folder: rank, alpha, scale and targets of adapters of `model`,
// whose own adapters do not count. Throws a UserError that begins with the path and names the key
// if the file is missing or damaged, or describes what this program does not compute: dropout,
// biases, modules to save, DoRA, layers that differ from each other, layers that no block of the
// model has, layers of experts, or any setting that it does not know, unless that is off.
LoraConfig read_adapter_config(const std::string& folder, const ModelConfig& model);

}  // namespace ladder
