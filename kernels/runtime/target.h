// The target of a token: what should follow it, or nothing that counts.
#pragma once

#include <cstdint>

namespace ladder {

// A token with this target does not count: it has no loss, and nothing is learned from it. Padding
// has it, and so has a prompt, of which only the answer is learned.
inline constexpr int32_t kIgnored = -1;

}  // namespace ladder
