// Cuts a kernel's machine code (SASS) into regions: what runs once, loops, what branches pass over.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "tools/measure/roofline/instructions.h"

namespace ladder {

struct MachineInstruction {
  std::size_t address;
  std::string opcode;                 // such as "LDG.E.128"
  bool is_conditional;                // has a predicate, so that a branch may be passed over
  std::optional<std::size_t> target;  // of a branch
};

// Returns the instruction in a line of what cuobjdump -sass prints, if there is one.
std::optional<MachineInstruction> read_instruction(const std::string& line);

// Returns the regions of a kernel. A region is made of basic blocks that are executed together
// (each path through one of them passes through all), in the same loop. Loops, or arms, of one
// parent that have the same kinds of events are one region: they are parts of a loop that nvcc has
// unrolled, or of a sequence of conditions that are alike.
//
// What follows a return that has a condition is an arm.
//
// Left out is what a warp does not execute as a rule:
// - calls that a branch may pass over: divisions, roots and the like of unusual numbers;
// - what follows a BRA.DIV, for warps whose threads have parted;
// - of two arms, the one with less wide accesses to global memory; and an arm that writes less at
//   once than the code before it. They are for what packs of elements leave over.
roofline::KernelCode regions_of(std::span<const MachineInstruction> code);

}  // namespace ladder
