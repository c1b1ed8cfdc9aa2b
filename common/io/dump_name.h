// The names of the files in a dump folder: step_000001.safetensors and so on.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ladder {

// Returns the name for a step, such as "step_000042.safetensors". From step 1,000,000 on it has
// more digits.
std::string dump_name(size_t step);
// Returns the step of a name, or nothing if it is not the name of a dump.
std::optional<size_t> step_of_dump(std::string_view name);

}  // namespace ladder
