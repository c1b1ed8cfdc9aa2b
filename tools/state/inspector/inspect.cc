#include "tools/state/inspector/inspect.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/io/printable.h"
#include "common/io/text.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

bool is_float(const SafetensorsEntry& entry) {
  return entry.dtype == "F64" || entry.dtype == "F32" || entry.dtype == "BF16" ||
         entry.dtype == "F16";
}

// Elements [first, first + count), as doubles: exact, whatever the dtype.
std::vector<double> read(const SafetensorsReader& file, const SafetensorsEntry& entry, size_t first,
                         size_t count) {
  std::vector<double> values(count);
  file.read_part(entry, first, TensorView(values.data(), DType::fp64, DeviceType::cpu, {count}));
  return values;
}

std::string shape_of(const SafetensorsEntry& entry) {
  std::string text;
  for (size_t size : entry.shape) text += concat(text.empty() ? "" : " x ", size);
  return text.empty() ? "1" : text;
}

std::string number(double value) { return format("%.6g", value); }

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string summary_text(const SafetensorsReader& file, const SafetensorsEntry& entry) {
  if (!is_float(entry)) return "not floating-point numbers";
  const TensorSummary s = summarize(file, entry);
  std::string text = concat("norm ", padded(number(s.norm), 12), " from ",
                            padded(number(s.minimum), 13), " to ", padded(number(s.maximum), 12));
  if (s.num_zeros > 0) text += concat("  ", counted(s.num_zeros, "zero"));
  if (s.num_not_finite > 0) text += concat("  ", s.num_not_finite, " NaN or infinite");
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

}  // namespace

TensorSummary summarize(const SafetensorsReader& file, const SafetensorsEntry& entry) {
  constexpr size_t kSegment = size_t{1} << 16;
  TensorSummary summary;
  double squares = 0;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  const size_t n = entry.num_elements();
  for (size_t first = 0; first < n; first += kSegment) {
    for (double value : read(file, entry, first, std::min(kSegment, n - first))) {
      if (!std::isfinite(value)) {
        ++summary.num_not_finite;
        continue;
      }
      squares += value * value;
      least = std::min(least, value);
      most = std::max(most, value);
      summary.num_zeros += value == 0;
    }
  }
  summary.norm = std::sqrt(squares);
  if (least <= most) {
    summary.minimum = least;
    summary.maximum = most;
  }
  return summary;
}

std::string table_of(const SafetensorsReader& file) {
  size_t name_width = 0, shape_width = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    name_width = std::max(name_width, one_line(entry.name).size());
    shape_width = std::max(shape_width, shape_of(entry).size());
  }
  std::string text;
  for (const SafetensorsEntry& entry : file.entries()) {
    text += concat(padded(one_line(entry.name), name_width), "  ", padded(entry.dtype, 4), "  ",
                   padded(shape_of(entry), shape_width), "  ", summary_text(file, entry), "\n");
  }
  return text;
}

std::string values_of(const SafetensorsReader& file, const std::string& name, size_t row,
                      size_t column, size_t count) {
  std::string text;
  for (const SafetensorsEntry& entry : file.entries()) {
    if (entry.name != name && !entry.name.ends_with(concat(".", name))) continue;
    text += concat(one_line(entry.name), "  ", entry.dtype, "  ", shape_of(entry), "  ",
                   summary_text(file, entry), "\n");
    if (!is_float(entry)) continue;
    const size_t columns = entry.shape.empty() ? 1 : entry.shape.back();
    const size_t rows = columns == 0 ? 0 : entry.num_elements() / columns;
    if (row >= rows || column >= columns) {
      throw UserError(concat("--at ", row, ",", column, ": ", quoted_name(entry.name), " has ",
                             counted(rows, "row"), " and ", counted(columns, "column")));
    }
    text += concat("  row ", row, ", from column ", column, ":");
    for (double value :
         read(file, entry, row * columns + column, std::min(count, columns - column))) {
      text += concat(" ", number(value));
    }
    text += "\n";
  }
  if (text.empty()) throw UserError(concat("no tensor is called ", quoted_name(name)));
  return text;
}

}  // namespace ladder
