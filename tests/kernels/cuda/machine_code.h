// What nvcc has made of the kernels, read from their object files by cuobjdump.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tests/kernels/cuda/code_regions.h"

namespace ladder {

// Returns whether there is a cuobjdump. It comes with the CUDA toolkit. The environment variable
// CUOBJDUMP names it, and OBJECTS the object files.
bool has_cuobjdump();

// Returns the instructions of each kernel, named as cuobjdump spells it, on a GPU such as sm_90.
// Kernels of different object files have different names.
const std::map<std::string, std::vector<MachineInstruction>>& instructions_of_kernels(
    const std::string& gpu);

// Returns the registers of a thread of each kernel, by the kernel's short name
// (kernels/emulator/registers.h).
std::map<std::string, std::size_t> registers_of_kernels(const std::string& gpu);

// Returns kernels/emulator/registers.txt as it should be.
std::string registers_table();

// Returns tools/measure/roofline/instructions.txt as it should be.
std::string instructions_table();

}  // namespace ladder
