// What the program's own debugging information says of an address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace ladder::emulator {

// Returns the line of the source of the instruction before `return_address`, such as
// "kernels/cuda/gelu.cu:22". If a header's function was inlined there, it is the header's line and
// the line in the .cu file that it was called from: "kernels/cuda/pack.h:41, called from
// kernels/cuda/gelu.cu:22".
std::string source_line(const void* return_address);

// A variable that lives as long as the program.
struct Variable {
  std::string name;  // without namespaces and functions
  bool in_function;  // declared static in a function
  std::uintptr_t begin;
  size_t bytes;
};

// Returns the variable that has a byte at this address, if there is one.
std::optional<Variable> variable_at(std::uintptr_t address);

}  // namespace ladder::emulator
