#include "tools/measure/roofline/instructions.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <sstream>

#include "kernels/emulator/registers.h"
#include "kernels/runtime/check.h"

// instructions.s has these.
extern "C" {
extern const char roofline_instructions_begin[];
extern const std::uint64_t roofline_instructions_bytes;
}

namespace ladder::roofline {
namespace {

using emulator::Event, emulator::Events, emulator::kEventNames;
using Kind = Region::Kind;

constexpr std::string_view kKindNames[] = {"straight", "loop", "arm"};

bool has_events(const Region& region) {
  return std::ranges::any_of(region.events, [](double events) { return events > 0; });
}

Region read_region(const std::string& line) {
  std::istringstream fields(line);
  std::string kind, event;
  Region region;
  fields >> kind >> region.parent >> region.instructions;
  const auto* const named = std::ranges::find(kKindNames, kind);
  if (fields.fail() || named == std::end(kKindNames)) {
    fail(concat("no region of machine code: ", line));
  }
  region.kind = static_cast<Kind>(named - std::begin(kKindNames));
  while (fields >> event) {
    const std::size_t equals = std::min(event.find('='), event.size());
    const auto* const found = std::ranges::find(kEventNames, event.substr(0, equals));
    if (found == kEventNames.end()) fail(concat("no event of machine code: ", event));
    region.events[static_cast<std::size_t>(found - kEventNames.begin())] =
        std::stod(event.substr(equals + 1));
  }
  return region;
}

// The factor that would make a region explain what was counted, by the mean over its events.
double correction_of(const Region& region, const Events& counted, const Events& predicted) {
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    if (region.events[i] == 0) continue;
    const double weight = region.events[i] / std::max(counted[i], 1e-9);
    sum += weight * counted[i] / std::max(predicted[i], 1e-9);
    weights += weight;
  }
  return sum / weights;
}

// How often a region without events is executed.
double without_events(const KernelCode& code, std::size_t index,
                      const std::vector<double>& executions, bool has_mma) {
  const Region& region = code[index];
  if (region.kind == Kind::loop) {  // as often as the most frequent region in it
    double most = 0;
    for (std::size_t i = index + 1; i < code.size(); ++i) {
      if (code[i].parent == index && has_events(code[i])) most = std::max(most, executions[i]);
    }
    return most > 0 ? most : executions[region.parent];
  }
  const bool is_mask = has_mma && code[region.parent].kind == Kind::loop;
  return is_mask ? std::min(1.0, executions[region.parent]) : executions[region.parent];
}

}  // namespace

std::string text_of(std::string_view name, const KernelCode& code) {
  std::string text(name);
  text += "\n";
  for (const Region& region : code) {
    text += concat("  ", kKindNames[static_cast<std::size_t>(region.kind)], " ", region.parent, " ",
                   region.instructions);
    for (std::size_t i = 0; i < region.events.size(); ++i) {
      if (region.events[i] > 0) text += concat(" ", kEventNames[i], "=", region.events[i]);
    }
    text += "\n";
  }
  return text;
}

std::map<std::string, KernelCode> read_kernels(const std::string& text) {
  std::map<std::string, KernelCode> kernels;
  KernelCode* code = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    if (!line.starts_with(" ")) {
      code = &kernels[line];
      continue;
    }
    if (code == nullptr) fail(concat("a region of machine code without a kernel: ", line));
    code->push_back(read_region(line));
    if (code->back().parent >= code->size()) fail(concat("a region before its parent: ", line));
  }
  return kernels;
}

double instructions_of_warp(const KernelCode& code, const Events& counted) {
  constexpr int kRounds = 500;
  const bool has_mma =
      std::ranges::any_of(code, [](Region region) { return of(region.events, Event::mma) > 0; });
  std::vector<double> executions(code.size(), 1);
  for (int round = 0; round < kRounds; ++round) {
    Events predicted{};
    for (std::size_t i = 0; i < code.size(); ++i) {
      for (std::size_t event = 0; event < predicted.size(); ++event) {
        predicted[event] += executions[i] * code[i].events[event];
      }
    }
    for (std::size_t i = 1; i < code.size(); ++i) {
      if (has_events(code[i])) executions[i] *= correction_of(code[i], counted, predicted);
    }
    for (std::size_t i = 1; i < code.size(); ++i) {
      const Region& parent = code[code[i].parent];
      if (!has_events(code[i])) executions[i] = without_events(code, i, executions, has_mma);
      const bool is_bounded =
          code[i].kind == Kind::arm && (has_events(parent) || parent.kind == Kind::straight);
      if (is_bounded) executions[i] = std::min(executions[i], executions[code[i].parent]);
    }
  }
  double instructions = 0;
  for (std::size_t i = 0; i < code.size(); ++i) {
    instructions += executions[i] * code[i].instructions;
  }
  return instructions;
}

const KernelCode* code_of(std::string_view name) {
  static const std::map<std::string, KernelCode> kernels =
      read_kernels(std::string(roofline_instructions_begin, roofline_instructions_bytes));
  const auto found = emulator::find_kernel(kernels, emulator::short_kernel_name(name));
  return found == kernels.end() ? nullptr : &found->second;
}

}  // namespace ladder::roofline
