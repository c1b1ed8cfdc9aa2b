#include "common/io/dump_name.h"

#include <charconv>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr std::string_view kBegin = "step_", kEnd = ".safetensors";
constexpr size_t kFewestDigits = 6;

}  // namespace

std::string dump_name(size_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kFewestDigits) digits.insert(0, kFewestDigits - digits.size(), '0');
  return concat(kBegin, digits, kEnd);
}

std::optional<size_t> step_of_dump(std::string_view name) {
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  if (name.size() < kBegin.size() + kFewestDigits + kEnd.size()) return std::nullopt;
  const char* const end = name.data() + name.size() - kEnd.size();
  size_t step = 0;
  const auto [rest, error] = std::from_chars(name.data() + kBegin.size(), end, step);
  if (error != std::errc() || rest != end) return std::nullopt;
  return step;
}

}  // namespace ladder
