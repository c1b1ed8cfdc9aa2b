#include "common/train/flags/validators.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "common/io/text.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Returns the number that the whole of `text` is, or nothing if it is not a number.
template <class Number>
std::optional<Number> parse_number(const std::string& text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::string decimal_fault(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool is_number = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
  if (is_number && (digits[0] != '0' || digits.size() == 1)) return "";
  return concat("'", text, "' is not a whole number in decimal, without leading zeros");
}

}  // namespace

CLI::Validator decimal() {
  return CLI::Validator([](std::string& text) { return decimal_fault(text); }, "");
}

CLI::Validator whole(int64_t least, int64_t most) {
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<int64_t> number = parse_number<int64_t>(text);
        if (number && *number >= least && *number <= most) return decimal_fault(text);
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

double seconds_in(const std::string& time) {
  for (const auto& [unit, seconds] : {std::pair("min", 60.0), {"h", 3600.0}, {"s", 1.0}}) {
    if (!time.ends_with(unit)) continue;
    std::string number = time.substr(0, time.size() - std::strlen(unit));
    return whole(1, 1'000'000)(number).empty() ? seconds * std::stod(number) : 0;
  }
  return 0;
}

CLI::Validator steps_or_time() {
  return CLI::Validator(
      [](std::string& text) {
        const std::string fault = whole(0, 1'000'000'000)(text);
        return fault.empty() || seconds_in(text) > 0
                   ? std::string()
                   : concat(fault, ", nor a time such as 90s, 10min or 2h");
      },
      "");
}

CLI::Validator byte_size() {
  return CLI::Validator(
      [](std::string& text) {
        const std::string given = text;
        // CLI11 reads "-1" as 2^64 - 1, "MiB" as one MiB, 010 as 8 and 0x10 as 16.
        const size_t digits = std::min(given.find_first_not_of("0123456789"), given.size());
        const bool has_number = digits > 0 && (given[0] != '0' || digits == 1) &&
                                given.find_first_of("0123456789", digits) == given.npos;
        try {
          // The largest size is one that still fits a pointer difference.
          const auto size = CLI::AsSizeValue(true) & CLI::Range(size_t{1}, size_t{1} << 62);
          if (has_number && size(text).empty()) return std::string();
        } catch (const CLI::ValidationError&) {  // thrown for an unknown unit
        }
        return concat("'", given, "' is not a size such as 64MiB, from 1 byte to 4 EiB");
      },
      "");
}

CLI::Validator true_or_false() {
  return CLI::Validator(
      [](std::string& text) {
        // CLI11 also reads numbers, of which all above 0 are true, and + and -.
        const bool is_word =
            text == "0" || text == "1" || std::isalpha(static_cast<unsigned char>(text[0])) != 0;
        try {
          if (is_word && CLI::detail::to_flag_value(text) != 0) return std::string();
        } catch (const std::exception&) {  // the word is another
        }
        return concat("'", text, "' is neither true nor false");
      },
      "");
}

void check_countable(const RunConfig& config) {
  const ModelConfig& m = config.model;
  const auto real_number = [](size_t count) { return static_cast<double>(count); };
  const double c = real_number(m.hidden), l = real_number(m.num_layers);
  // An inner layer has a weight and an activation before its core, and one behind it; SwiGLU's has
  // two before it.
  const double f = real_number(m.ffn_size()) * (m.mlp == MlpCore::swiglu ? 1.5 : 1);
  const double q = real_number(m.num_heads) * real_number(m.head_columns());
  const double rows = real_number(config.micro_batch_size) * real_number(m.sequence_length);
  const double tables = real_number((m.untied ? 2 : 1) * m.vocab_size + m.sequence_length);
  const double parameters = c * (tables + l * (4 * q + 2 * f));
  const double activations =
      rows * (c * (4 * l + 10) + l * (4 * q + 2 * f + real_number(m.num_heads)));
  if (8 * (4 * parameters + activations + rows * real_number(m.vocab_size)) > 0x1p62) {
    throw UserError(concat("--layers ", m.num_layers, " --hidden ", m.hidden, " --ffn ",
                           m.ffn_size(), " --vocab ", m.vocab_size, " --sequence-length ",
                           m.sequence_length, " --micro-batch-size ", config.micro_batch_size,
                           ": more than 4 EiB of memory"));
  }
}

void check_all_ranks(std::string_view flag, size_t size, size_t num_ranks) {
  if (size == 0 || size == num_ranks) return;
  throw UserError(concat(flag, " ", size, " on ", counted(num_ranks, "rank"), "; start ", size,
                         " of them, or take 09_3d_parallel, which splits the batch too"));
}

std::string sharers(size_t data_size, size_t num_ranks) {
  return data_size == num_ranks ? counted(data_size, "rank")
                                : concat(data_size, " data-parallel ranks (of ", num_ranks, ")");
}

}  // namespace ladder
