// What nvcc has made of the kernels, read from their object files by cuobjdump.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace ladder {

// Returns whether there is a cuobjdump. It comes with the CUDA toolkit. The environment variable
// CUOBJDUMP names it, and OBJECTS the object files.
bool has_cuobjdump();

// The instructions of each kernel, such as "LDG.E.128". A kernel is named as cuobjdump spells it.
using MachineCode = std::map<std::string, std::vector<std::string>>;

// Returns the kernels' instructions on a GPU such as sm_90. Kernels of different object files have
// different names.
MachineCode instructions_of_kernels(const std::string& gpu);

// Returns the registers of a thread of each kernel, by the kernel's short name
// (kernels/emulator/registers.h).
std::map<std::string, std::size_t> registers_of_kernels(const std::string& gpu);

// Returns kernels/emulator/registers.txt as it should be.
std::string registers_table();

}  // namespace ladder
