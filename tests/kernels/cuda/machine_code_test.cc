// The machine code that nvcc makes of the kernels, for each GPU: registers are not spilled to
// memory, loops over memory move 16 bytes in an instruction, products run on tensor cores. It needs
// cuobjdump and nvdisasm, which come with the CUDA toolkit.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <regex>
#include <sstream>

#include "tools/process/process.h"

namespace ladder {
namespace {

// Instructions by kernel, both as cuobjdump spells them, such as "LDG.E.128". Kernels of different
// object files have different names.
using Code = std::map<std::string, std::vector<std::string>>;

bool tools_are_there() {
  const bool there = run_process({std::getenv("CUOBJDUMP"), "--version"}).status == 0;
  if (!there) WARN("skipped: no cuobjdump, which shows machine code");
  return there;
}

Code disassemble(const std::string& architecture) {
  static const std::regex kernel(R"(^\s+Function : (\S+)$)");
  static const std::regex instruction(
      R"(^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*))");
  Code code;
  std::istringstream objects(std::getenv("OBJECTS"));
  for (std::string object; objects >> object;) {
    const ProcessResult result =
        run_process({std::getenv("CUOBJDUMP"), "-sass", "-arch", architecture, object});
    INFO(object << ": " << result.err);
    REQUIRE(result.status == 0);
    std::istringstream lines(result.out);
    std::vector<std::string>* current = nullptr;
    std::smatch found;
    for (std::string line; std::getline(lines, line);) {
      if (std::regex_search(line, found, kernel)) current = &code[found[1]];
      if (current != nullptr && std::regex_search(line, found, instruction)) {
        current->push_back(found[1]);
      }
    }
  }
  REQUIRE(code.size() > 100);
  return code;
}

bool contains(const std::vector<std::string>& instructions, const std::string& pattern) {
  const std::regex expected(pattern);
  return std::ranges::any_of(
      instructions, [&](const std::string& one) { return std::regex_match(one, expected); });
}

// Kernels whose name matches must have the instructions, and must not have the others.
struct Rule {
  const char* kernel;
  std::vector<const char*> has, has_not;
};

const std::vector<Rule> kRules = {
    // Elementwise, packs of 8.
    {"map_kernelILj8E.*bfloat16", {"STG.*128"}, {}},
    {"map_kernelILj8E.*Gelu.*bfloat16", {"LDG.*128", "STG.*128"}, {}},
    {"map_rows_kernelILj8E.*bfloat16", {"LDG.*128", "STG.*128"}, {"LDG.*U16.*", "STG.*U16.*"}},
    {"adamw_kernelILj4Ef", {"LDG.*128", "STG.*128"}, {}},
    {"exponentials_kernelILj4Ef", {"LDG.*128", "STG.*128"}, {}},
    {"gradient_kernelILj4EN.*bfloat16", {"LDG.*128", "STG.*64"}, {}},
    {"_in_registers_kernelILj8E.*bfloat16", {"LDG.*128", "STG.*128"}, {"LDG.*U16.*", "STG.*U16.*"}},
    // Products.
    {"attention_mma_forward.*forward_kernel",
     {"HMMA\\.16816\\.F32.*", "LDSM\\.16\\.M.*", "LDGSTS.*128", "MUFU\\.EX2"},
     {}},
    {"attention_mma_backward.*backward_kernel",
     {"HMMA\\.16816\\.F32.*", "LDSM\\.16\\.M.*", "LDGSTS.*128", "MUFU\\.EX2"},
     {}},
};

void check_rules(const Code& code) {
  for (const Rule& rule : kRules) {
    const std::regex name(rule.kernel);
    size_t kernels = 0;
    for (const auto& [kernel, instructions] : code) {
      if (!std::regex_search(kernel, name)) continue;
      ++kernels;
      INFO(kernel);
      for (const char* const pattern : rule.has) {
        INFO("must have " << pattern);
        CHECK(contains(instructions, pattern));
      }
      for (const char* const pattern : rule.has_not) {
        INFO("must not have " << pattern);
        CHECK_FALSE(contains(instructions, pattern));
      }
    }
    INFO("no kernel is named " << rule.kernel);
    CHECK(kernels > 0);
  }
}

// LDL and STL move registers that did not suffice to memory and back. The simple kernels of
// attention have a few: they are there to be read, and for fp32 and fp64.
void check_spills(const Code& code) {
  const std::regex simple("21_attention_backward_cu.*backward_kernel");
  for (const auto& [kernel, instructions] : code) {
    if (std::regex_search(kernel, simple)) continue;
    INFO(kernel);
    CHECK_FALSE(contains(instructions, "(LDL|STL).*"));
  }
}

TEST_CASE("machine code of an A100: wide accesses, tensor cores, nothing spilled") {
  if (!tools_are_there()) return;
  const Code code = disassemble("sm_80");
  check_rules(code);
  check_spills(code);
}

TEST_CASE("machine code of an H100: wide accesses, tensor cores, nothing spilled") {
  if (!tools_are_there()) return;
  const Code code = disassemble("sm_90");
  check_rules(code);
  check_spills(code);
}

}  // namespace
}  // namespace ladder
