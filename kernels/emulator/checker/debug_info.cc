#include "kernels/emulator/checker/debug_info.h"

#include <backtrace.h>
#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/emulator/thread.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

void ignore_error(void*, const char*, int) {}

// The reader of debugging information, which looks at the file when it is first asked.
backtrace_state* reader() {
  static backtrace_state* const state = backtrace_create_state(nullptr, 1, ignore_error, nullptr);
  return state;
}

struct Line {
  std::string file;
  int number;
};

std::string text_of(const Line& line) { return concat(line.file, ":", line.number); }

// Adds a line for each function that was inlined at the address, innermost first.
int add_line(void* lines, std::uintptr_t, const char* file, int number, const char*) {
  if (file == nullptr) return 0;
  static_cast<std::vector<Line>*>(lines)->push_back({std::string(path_in_tree(file)), number});
  return 0;
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

void set_variable(void* result, std::uintptr_t, const char* name, std::uintptr_t begin,
                  std::uintptr_t bytes) {
  if (name == nullptr || bytes == 0) return;
  std::string text = demangled(name);
  if (const size_t at = text.rfind("::"); at != std::string::npos) text.erase(0, at + 2);
  const bool in_function = std::string_view(name).starts_with("_ZZ");
  *static_cast<std::optional<Variable>*>(result) = {std::move(text), in_function, begin, bytes};
}

}  // namespace

std::string source_line(const void* return_address) {
  std::vector<Line> lines;
  backtrace_pcinfo(reader(), reinterpret_cast<std::uintptr_t>(return_address) - 1, add_line,
                   ignore_error, &lines);
  if (lines.empty()) return concat("address ", return_address);
  const auto in_cu = [](const Line& line) { return line.file.ends_with(".cu"); };
  const std::string inner = text_of(lines.front());
  for (const Line& line : lines) {
    if (!in_cu(line)) continue;
    return &line == &lines.front() ? inner : concat(inner, ", called from ", text_of(line));
  }
  return inner;
}

std::optional<Variable> variable_at(std::uintptr_t address) {
  std::optional<Variable> variable;
  backtrace_syminfo(reader(), address, set_variable, ignore_error, &variable);
  if (variable && address - variable->begin >= variable->bytes) variable.reset();
  return variable;
}

}  // namespace ladder::emulator
