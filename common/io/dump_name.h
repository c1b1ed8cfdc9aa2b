// How the files in a dump folder are called: step_000001.safetensors and so on.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ladder {

// "step_000042.safetensors" of 42; from step 1,000,000 on there are more digits.
std::string dump_name(size_t step);
// 42 of "step_000042.safetensors"; nothing for other names.
std::optional<size_t> step_of_dump(std::string_view name);

}  // namespace ladder
