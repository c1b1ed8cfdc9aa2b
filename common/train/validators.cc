#include "common/train/validators.h"

#include <charconv>
#include <optional>
#include <string>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// The whole of `text` as a number, or nothing.
template <class Number>
std::optional<Number> parse_number(const std::string& text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

CLI::Validator whole(int64_t least, int64_t most) {
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<int64_t> number = parse_number<int64_t>(text);
        if (number && *number >= least && *number <= most) return std::string();
        return concat("'", text, "' is not a whole number from ", least, " to ", most);
      },
      "");
}

CLI::Validator real(double least, double most, bool exclusive) {
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<double> number = parse_number<double>(text);
        if (number && *number <= most && (exclusive ? *number > least : *number >= least)) {
          return std::string();
        }
        return concat("'", text, "' is not a number ", exclusive ? "above " : "from ", least,
                      " to ", most);
      },
      "");
}

CLI::Validator path() {
  return CLI::Validator(
      [](std::string& text) { return text.empty() ? "the path is empty" : std::string(); }, "");
}

void check_all_ranks(std::string_view flag, size_t size, size_t num_ranks) {
  if (size == 0 || size == num_ranks) return;
  throw UserError(concat(flag, " ", size, " on ", counted(num_ranks, "rank"), "; start ", size,
                         " of them, or take 09_3d_parallel, which splits the batch too"));
}

}  // namespace ladder
