#include "kernels/emulator/registers.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>

#include "kernels/runtime/check.h"

// registers.s has these.
extern "C" {
extern const char emulator_registers_begin[];
extern const std::uint64_t emulator_registers_bytes;
}

namespace ladder::emulator {
namespace {

struct Registers {
  size_t sm_80, sm_90;
};

// The table has a line for each kernel: the registers on an A100, those on an H100, the name.
// Lines that begin with # are comments.
std::map<std::string, Registers> read_table() {
  std::istringstream text(std::string(emulator_registers_begin, emulator_registers_bytes));
  std::map<std::string, Registers> table;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream fields(line);
    Registers registers{};
    std::string name;
    fields >> registers.sm_80 >> registers.sm_90 >> std::ws;
    std::getline(fields, name);
    check(!fields.fail(), "kernels/emulator/registers.txt has a line that is none of a kernel");
    table[name] = registers;
  }
  return table;
}

// Returns where the kernel with this short name is in the table, or its end. g++ leaves out the
// last arguments of a template if they are the default ones, nvcc does not.
auto find_kernel(const std::map<std::string, Registers>& table, const std::string& short_name) {
  const auto found = table.find(short_name);
  if (found != table.end()) return found;
  const std::string begin = short_name.substr(0, short_name.size() - 1) + ", ";
  const auto longer = table.lower_bound(begin);
  return longer != table.end() && longer->first.starts_with(begin) ? longer : table.end();
}

struct Override {
  std::string name;
  size_t registers;
};
Override& override() {
  static Override current;
  return current;
}

}  // namespace

std::string short_kernel_name(std::string_view name) {
  static const std::regex scopes(
      R"(^void |ladder::|cuda::|emulator::|\(anonymous namespace\)::|\{anonymous\}::|<unnamed>::|)"
      R"(_GLOBAL__N__\w+::)");
  static const std::regex suffix(R"(\b(\d+)u?l?\b)");
  std::string text = std::regex_replace(std::string(name), scopes, "");
  text = text.substr(0, text.find('('));
  text = std::regex_replace(text, suffix, "$1");
  for (size_t at; (at = text.find("> >")) != std::string::npos;) text.erase(at + 1, 1);
  return text;
}

size_t registers_of(std::string_view name, const DeviceModel& model) {
  static const std::map<std::string, Registers> table = read_table();
  static std::map<std::string, std::string, std::less<>> short_names;  // launches are many
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto known = short_names.find(name);
  if (known == short_names.end()) {
    known = short_names.emplace(std::string(name), short_kernel_name(name)).first;
  }
  if (known->second == override().name) return override().registers;
  const auto found = find_kernel(table, known->second);
  if (found == table.end()) return 0;
  return model.major == 8 ? found->second.sm_80 : found->second.sm_90;
}

WithRegisters::WithRegisters(std::string_view short_name, size_t registers) {
  override() = {std::string(short_name), registers};
}
WithRegisters::~WithRegisters() { override() = {}; }

}  // namespace ladder::emulator
