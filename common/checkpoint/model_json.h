// The model in the index of a checkpoint, and as text.
#pragma once

#include <string>

#include "common/checkpoint/json_path.h"
#include "common/model/config.h"

namespace ladder {

// Returns the sizes of a model as an object. Those of experts are there only if it has some.
Json to_json(const ModelConfig& model);
// Reads such an object. Throws a UserError that begins with the place if a size is missing, out of
// its range, or does not fit the others.
ModelConfig parse_model(const Json& json, const JsonPath& reader);
// Returns the flags that give this model, "--layers 12 --heads 12 ...", and what is frozen.
std::string flags_text(const ModelConfig& model);

}  // namespace ladder
