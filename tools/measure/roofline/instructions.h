// How many instructions the warps of a launch execute: from a table of machine code, and from what
// the emulator counts.
//
// nvcc's machine code is cut into regions: what every warp executes once (straight), loops, and
// what branches may pass over (arms). How often a warp comes to a loop or an arm is not in the
// code. But a region has events that the emulator counts, such as mma and bytes that are read. If a
// loop has 4 mma and a warp has executed 40 in all, it has come to the loop 10 times.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/emulator/profiler/events.h"

namespace ladder::roofline {

struct Region {
  enum class Kind { straight, loop, arm };
  Kind kind = Kind::straight;
  std::size_t parent = 0;     // the region that it lies in, by its index
  double instructions = 0;    // of a warp, in one execution
  emulator::Events events{};  // likewise
};

// The regions of a kernel. The first one is straight and its own parent, the others come after
// their parents.
using KernelCode = std::vector<Region>;

// Returns the kernel as text, and kernels by their short names (kernels/emulator/registers.h) from
// such text. A line that begins with # is a comment. read_kernels() throws an Error for other text.
//   map_kernel<8, Gelu<float>, bfloat16, bfloat16>
//     straight 0 120 global-read=16 global-write=16
//     loop 0 30 exponential=1                            the kind, the parent, instructions, events
std::string text_of(std::string_view name, const KernelCode& code);
std::map<std::string, KernelCode> read_kernels(const std::string& text);

// Returns how many instructions a warp executes, if it has `counted` events on average.
//
// All warps execute the straight region once. The others begin with one execution, and then each is
// multiplied by the mean of counted / predicted over its events, until that changes nothing (the
// update of EM for Poisson counts [Shepp and Vardi 1982]). An arm is executed at most as often as
// its parent. Without events it is executed as often, but for arms in the loops of kernels with
// mma. They hide scores in the tile on the diagonal: once for a warp.
double instructions_of_warp(const KernelCode& code, const emulator::Events& counted);

// Returns the kernel's code on an H100 in instructions.txt, or nullptr if it has none. `name` is as
// the compiler spells it.
const KernelCode* code_of(std::string_view name);

}  // namespace ladder::roofline
