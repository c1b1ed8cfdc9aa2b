// The machine code that nvcc makes of the kernels, for each GPU: registers are not spilled to
// memory, loops over memory move 16 bytes in an instruction, products run on tensor cores. It needs
// cuobjdump and nvdisasm, which come with the CUDA toolkit.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/catch.h"
#include "tests/kernels/cuda/machine_code.h"
#include "tools/programs/process.h"

namespace ladder {
namespace {

bool tools_are_there() {
  const bool there = has_cuobjdump();
  if (!there) WARN("skipped: no cuobjdump, which shows machine code");
  return there;
}

// The build says which GPUs it has code for: --config=cuda-check has one.
bool compiled_for(const std::string& gpu) {
  const bool compiled = std::string(std::getenv("GPUS")).find(gpu) != std::string::npos;
  if (!compiled) WARN("skipped: no code for " << gpu << "; --config=cuda has it");
  return compiled;
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
    {"adamw_kernelILj4EfNS_8bfloat16", {"LDG.*128", "STG.*128", "STG.*64"}, {}},
    {"exponentials_kernelILj4Ef", {"LDG.*128", "STG.*128"}, {}},
    {"gradient_kernelILj4EN.*bfloat16", {"LDG.*128", "STG.*64"}, {}},
    {"long_rows_kernel.*bfloat16Ef", {"LDGSTS.*128", "LDS.*128", "STG.*64", "MUFU\\.EX2"}, {}},
    {"long_rows_kernel.*bfloat16ES", {"LDGSTS.*128", "LDS.*128", "STG.*128", "MUFU\\.EX2"}, {}},
    {"rows_and_columns_kernel.*bfloat16",
     {"LDG.*128", "STG.*128", "LDS.*128"},
     {"LDG.*U16.*", "STG.*U16.*"}},
    {"bias_parts_kernel.*bfloat16", {"LDG.*128"}, {"LDG.*U16.*"}},
    {"rmsnorm_forward_kernel.*LaneRow.*bfloat16",
     {"LDG.*128", "STG.*128"},
     {"LDG.*U16.*", "STG.*U16.*"}},
    {"head_norm_(forward|backward)_kernelILj4E.*bfloat16",
     {"LDG.*64", "STG.*64"},
     {"LDG.*U16.*", "STG.*U16.*"}},
    {"swiglu_(forward|backward)_kernelILj8E.*bfloat16",
     {"LDG.*128", "STG.*128"},
     {"LDG.*U16.*", "STG.*U16.*"}},
    {"rotary_kernelILj4E.*bfloat16",
     {"LDG.*64", "LDG.*128", "STG.*64"},
     {"LDG.*U16.*", "STG.*U16.*"}},
    {"_in_registers_kernelILj8E.*bfloat16", {"LDG.*128", "STG.*128"}, {"LDG.*U16.*", "STG.*U16.*"}},
    // Products.
    {"attention_mma_forward.*forward_kernel",
     {"HMMA\\.16816\\.F32.*", "LDSM\\.16\\.M.*", "LDGSTS.*128", "MUFU\\.EX2"},
     {}},
    {"attention_mma_backward.*(keys|queries)_kernel",
     {"HMMA\\.16816\\.F32.*", "LDSM\\.16\\.M.*", "LDGSTS.*128", "MUFU\\.EX2"},
     {}},
    // The versions of kernels/cuda/versions.
    {"vectorized_product_kernel", {"LDG.*128", "LDS.*128", "STG.*64"}, {"LDG.*U16.*", "LDS"}},
    {"mma_product_kernel",
     {"HMMA\\.16816\\.F32.*", "LDSM\\.16\\.M.*", "LDGSTS.*128"},
     {"LDG\\.E.*", "STG.*U16.*"}},
    {"tiled_attention_kernel", {"LDS.*128"}, {}},
};

void check_rules(const MachineCode& code) {
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
void check_spills(const MachineCode& code) {
  const std::regex simple("21_attention_backward_cu.*backward_kernel");
  for (const auto& [kernel, instructions] : code) {
    if (std::regex_search(kernel, simple)) continue;
    INFO(kernel);
    CHECK_FALSE(contains(instructions, "(LDL|STL).*"));
  }
}

std::string committed_table() {
  std::ifstream file(std::getenv("REGISTERS"));
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A column of that table, by kernel: 0 is an A100's, 1 an H100's.
std::map<std::string, size_t> committed_registers(size_t column) {
  std::istringstream file(committed_table());
  std::map<std::string, size_t> registers;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream fields(line);
    size_t of_gpu[2] = {};
    std::string name;
    REQUIRE(std::getline(fields >> of_gpu[0] >> of_gpu[1] >> std::ws, name));
    registers[name] = of_gpu[column];
  }
  return registers;
}

void check_code(const std::string& gpu) {
  if (!tools_are_there() || !compiled_for(gpu)) return;
  const MachineCode code = instructions_of_kernels(gpu);
  REQUIRE(code.size() > 100);
  check_rules(code);
  check_spills(code);
}

TEST_CASE("machine code of an A100: wide accesses, tensor cores, nothing spilled") {
  check_code("sm_80");
}

TEST_CASE("machine code of an H100: wide accesses, tensor cores, nothing spilled") {
  check_code("sm_90");
}

// Another nvcc makes other code.
bool is_nvcc_of_table() {
  const std::string version = run_process({std::getenv("NVCC"), "--version"}).out;
  const bool is = version.find("release 13.0,") != std::string::npos;
  if (!is) WARN("skipped: the table is that of nvcc 13.0");
  return is;
}

// The emulator refuses launches by this table (kernels/emulator/launch.cc), so that the tests of
// all kernels see whether a GPU would take them.
TEST_CASE("the emulator's table has the registers that nvcc gives each kernel") {
  if (!tools_are_there() || !is_nvcc_of_table()) return;
  const std::vector<std::string> gpus = {"sm_80", "sm_90"};
  const bool has_all = std::ranges::all_of(gpus, compiled_for);
  for (size_t column = 0; column < gpus.size(); ++column) {
    if (!compiled_for(gpus[column])) continue;
    const auto today = registers_of_kernels(gpus[column]), committed = committed_registers(column);
    INFO("run the command in the first lines of kernels/emulator/registers.txt");
    CHECK(today.size() == committed.size());
    for (const auto& [name, registers] : committed) {
      INFO(gpus[column] << ": " << name);
      REQUIRE(today.contains(name));
      CHECK(today.at(name) == registers);
    }
  }
  if (has_all) CHECK(registers_table() == committed_table());  // its order and its first lines too
}

}  // namespace
}  // namespace ladder
