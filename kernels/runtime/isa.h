// Which instructions the CPU's bodies of kernels use. On x86-64 they are compiled twice (but codecs
// once): for v3 (AVX2 and FMA, vectors of 32 bytes) and v4 (AVX-512, vectors of 64 bytes). The bits
// of all results are the same.
#pragma once

#include <string_view>

namespace ladder {

// Returns "v3" or "v4": v4 if the CPU has it and no body of this program is replaced. The
// environment variable LADDER_ISA=v3 or v4 overrides that. Throws a UserError if it has another
// value, or is v4 where this CPU or program cannot run it. In programs without kernels it returns
// "" and ignores LADDER_ISA; on other processors it returns "", and LADDER_ISA is an error.
std::string_view instruction_set();

namespace detail {
void* chosen_body(void* v3);
}

// Returns the body of a kernel that is to run on the CPU: that for v4, if it is chosen and there is
// one, else the argument.
template <class Function>
Function* chosen_body(Function* body) {
  return reinterpret_cast<Function*>(detail::chosen_body(reinterpret_cast<void*>(body)));
}

}  // namespace ladder
