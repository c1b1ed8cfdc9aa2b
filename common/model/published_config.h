// The file config.json, with which Hugging Face's transformers describes a model beside its
// weights. Heads, activation function and epsilon cannot be seen from the weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/model/config.h"

namespace ladder {

// Returns the text of config.json for the model: a GPT-2, Llama, Qwen 2, Qwen 3, Mistral or
// Mixtral.
// `end_of_text` is the token that begins and ends a document, if the vocabulary has one.
std::string published_config(const ModelConfig& config, std::optional<int32_t> end_of_text);

// Throws a UserError that begins with `path` if transformers has no model like this one.
void require_publishable(const std::string& path, const ModelConfig& config);

// Reads a config.json. What the file does not give has the value that transformers gives it. If
// tokens see a window of fewer tokens than the file has positions, the model has as many positions
// as the window. Throws a UserError that begins with the path if the file is damaged, or if it
// describes a model that cannot be (check_config()) or that this program does not compute, such as
// one with another activation function.
ModelConfig read_published_config(const std::string& path);

// Returns the token that a config.json says ends a text, its "eos_token_id" (of several the first),
// or nothing. Throws a UserError that begins with the path if the file is damaged.
std::optional<size_t> published_end_of_text(const std::string& path);

// Throws a UserError that begins with the path of a config.json, and names both sides, if the model
// that it describes is not `config`. It may have more positions. Throws as read_published_config()
// does, too.
void require_same_model(const std::string& path, const ModelConfig& config);

}  // namespace ladder
