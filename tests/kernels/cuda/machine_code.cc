#include "tests/kernels/cuda/machine_code.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <regex>
#include <sstream>

#include "kernels/emulator/registers.h"
#include "kernels/runtime/check.h"
#include "tools/programs/process.h"

namespace ladder {
namespace {

// Calls body(line) for all that cuobjdump prints of all object files.
template <class Body>
void for_each_line(const std::string& what, const std::string& gpu, Body body) {
  std::istringstream objects(std::getenv("OBJECTS"));
  for (std::string object; objects >> object;) {
    const ProcessResult result =
        run_process({std::getenv("CUOBJDUMP"), what, "-arch", gpu, object});
    if (result.status != 0) fail(concat("cuobjdump of ", object, ": ", result.err));
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) body(line);
  }
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  if (status != 0) fail(concat("the name of a kernel means nothing: ", name));
  return text.get();
}

}  // namespace

bool has_cuobjdump() { return run_process({std::getenv("CUOBJDUMP"), "--version"}).status == 0; }

MachineCode instructions_of_kernels(const std::string& gpu) {
  static const std::regex kernel(R"(^\s+Function : (\S+)$)");
  // A line of an instruction begins with its address: `/*0050*/ @!P0 LDG.E.128 R4, [R2] ;`.
  static const std::regex instruction(
      R"(\s{1,8}/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)\s*[^;]*;)");
  constexpr auto kAtBegin = std::regex_constants::match_continuous;
  MachineCode code;
  std::vector<std::string>* current = nullptr;
  for_each_line("-sass", gpu, [&](const std::string& line) {
    std::smatch found;
    if (std::regex_search(line, found, kernel)) {
      current = &code[found[1]];
    } else if (current != nullptr && std::regex_search(line, found, instruction, kAtBegin)) {
      current->push_back(found[1]);
    }
  });
  return code;
}

std::map<std::string, std::size_t> registers_of_kernels(const std::string& gpu) {
  static const std::regex kernel(R"(^ Function (\S+):$)"), registers(R"(^  REG:(\d+) )");
  std::map<std::string, std::size_t> all;
  std::string name;
  for_each_line("-res-usage", gpu, [&](const std::string& line) {
    std::smatch found;
    if (std::regex_search(line, found, kernel)) {
      name = emulator::short_kernel_name(demangled(found[1]));
    } else if (std::regex_search(line, found, registers)) {
      // Two kernels of one short name are in different files: the larger one counts.
      all[name] = std::max<std::size_t>(all[name], std::stoul(found[1]));
    }
  });
  return all;
}

std::string registers_table() {
  const auto a100 = registers_of_kernels("sm_80"), h100 = registers_of_kernels("sm_90");
  std::string text =
      "# Registers of a thread, on an A100 (sm_80) and an H100 (sm_90), of each kernel. Made by\n"
      "#   bazel run --config=cuda //tests/kernels/cuda:registers > "
      "kernels/emulator/registers.txt\n";
  for (const auto& [name, registers] : h100) {
    const std::string first = std::to_string(a100.at(name)), second = std::to_string(registers);
    text +=
        concat(std::string(3 - std::min<size_t>(first.size(), 3), ' '), first, " ",
               std::string(3 - std::min<size_t>(second.size(), 3), ' '), second, " ", name, "\n");
  }
  return text;
}

}  // namespace ladder
