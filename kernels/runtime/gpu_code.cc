#include "kernels/runtime/gpu.h"

#include <charconv>

namespace ladder {

std::string_view gpu_code() { return LADDER_GPU_CODE; }

bool runs_on(std::string_view code, int major, int minor) {
  while (!code.empty()) {
    const std::string_view one = code.substr(0, code.find(','));
    code.remove_prefix(one.size() + (one.size() < code.size()));
    int number = 0;  // 90: of compute capability 9.0
    const std::string_view digits = one.substr(one.find('_') + 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool is_machine_code = one.starts_with("sm_");
    if (10 * major + minor >= number && (!is_machine_code || major == number / 10)) return true;
  }
  return false;
}

}  // namespace ladder
