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

const std::map<std::string, std::vector<MachineInstruction>>& instructions_of_kernels(
    const std::string& gpu) {
  static std::map<std::string, std::map<std::string, std::vector<MachineInstruction>>> known;
  const auto [of_gpu, is_new] = known.try_emplace(gpu);
  std::map<std::string, std::vector<MachineInstruction>>& code = of_gpu->second;
  if (!is_new) return code;
  static const std::regex kernel(R"(^\s+Function : (\S+)$)");
  std::vector<MachineInstruction>* current = nullptr;
  for_each_line("-sass", gpu, [&](const std::string& line) {
    std::smatch found;
    if (std::regex_search(line, found, kernel)) current = &code[found[1]];
    if (current == nullptr) return;
    if (const std::optional<MachineInstruction> instruction = read_instruction(line)) {
      current->push_back(*instruction);
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

std::string instructions_table() {
  std::map<std::string, std::vector<MachineInstruction>> kernels;
  for (const auto& [mangled, code] : instructions_of_kernels("sm_90")) {
    const std::string name = emulator::short_kernel_name(demangled(mangled));
    if (name.find("double") != std::string::npos) continue;
    // Two kernels of one short name are in different files: the longer one counts.
    std::vector<MachineInstruction>& known = kernels[name];
    if (code.size() > known.size()) known = code;
  }
  std::string text =
      "# Instructions of a warp on an H100 (sm_90), by the regions of each kernel; kernels for "
      "fp64 are\n"
      "# left out. tools/measure/roofline/instructions.h says what the columns are. Made by\n"
      "#   bazel run --config=cuda //tests/kernels/cuda:instructions > "
      "tools/measure/roofline/instructions.txt\n";
  for (const auto& [name, code] : kernels) text += roofline::text_of(name, regions_of(code));
  return text;
}

}  // namespace ladder
