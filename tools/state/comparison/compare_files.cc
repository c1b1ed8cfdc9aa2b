#include "tools/state/comparison/compare_files.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "common/io/dump_name.h"
#include "common/io/printable.h"
#include "common/io/safetensors.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxLines = 20;

// Steps and names of the dumps in a folder, in order.
using Steps = std::set<std::pair<size_t, std::string>>;

Steps steps_in(const std::string& folder) {
  Steps steps;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (const std::optional<size_t> step = step_of_dump(name)) steps.emplace(*step, name);
  }
  if (error) throw UserError(concat(folder, ": cannot be read: ", error.message()));
  if (steps.empty()) {
    throw UserError(concat(folder, ": nothing to compare, no file step_NNNNNN.safetensors"));
  }
  return steps;
}

// UserError: there is nothing at `path`.
bool is_folder(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw UserError(concat(path, ": cannot be read: ", error.message()));
  }
  return fs::is_directory(status);
}

std::string shape_text(const SafetensorsEntry& entry) {
  std::string text;
  for (size_t extent : entry.shape) text += concat(text.empty() ? "" : ", ", extent);
  return "(" + text + ")";
}

// A matrix keeps its shape; what has more dimensions than a tensor of the model may have is
// compared as a row of numbers.
Shape shape_of(const SafetensorsEntry& entry) {
  if (entry.shape.size() == 2) return {entry.shape[0], entry.shape[1]};
  return {entry.num_elements()};
}

// Keeps the tensor in memory of its own, since in the file it may lie at an odd address; what is
// not fp32 is compared in fp64.
class LoadedTensor {
 public:
  LoadedTensor(const SafetensorsReader& reader, const SafetensorsEntry& entry)
      : dtype_(entry.dtype == "F32" ? DType::fp32 : DType::fp64),
        shape_(shape_of(entry)),
        memory_(shape_.num_elements() + 1) {
    reader.read(entry, {memory_.data(), dtype_, DeviceType::cpu, shape_});
  }
  ConstTensorView view() const { return {memory_.data(), dtype_, DeviceType::cpu, shape_}; }

 private:
  DType dtype_;
  Shape shape_;
  std::vector<double> memory_;
};

TensorDifference compare_entries(size_t step, const std::string& name, const SafetensorsReader& a,
                                 const SafetensorsReader& b, DumpComparer& comparer) {
  const SafetensorsEntry* const a_entry = a.find(name);
  const SafetensorsEntry* const b_entry = b.find(name);
  TensorDifference difference;
  difference.name = name;
  if (a_entry == nullptr || b_entry == nullptr) {
    difference.remark = a_entry == nullptr ? "only in B" : "only in A";
    return difference;
  }
  if (a_entry->shape != b_entry->shape) {
    difference.remark = concat("shape ", shape_text(*a_entry), " against ", shape_text(*b_entry));
    return difference;
  }
  return comparer.compare(step, name, LoadedTensor(a, *a_entry).view(),
                          LoadedTensor(b, *b_entry).view());
}

// In order of the names: "grad." comes before "param.", as the comparer requires.
FileDifference compare_files(size_t step, const std::string& name, const std::string& a_path,
                             const std::string& b_path, DumpComparer& comparer) {
  const SafetensorsReader a(a_path), b(b_path);
  std::set<std::string> names;
  for (const SafetensorsEntry& entry : a.entries()) names.insert(entry.name);
  for (const SafetensorsEntry& entry : b.entries()) names.insert(entry.name);
  FileDifference file{name, "", {}};
  for (const std::string& tensor : names) {
    file.tensors.push_back(compare_entries(step, tensor, a, b, comparer));
  }
  return file;
}

std::vector<FileDifference> compare_folders(const std::string& a, const std::string& b,
                                            const CompareOptions& options) {
  const Steps a_steps = steps_in(a), b_steps = steps_in(b);
  Steps steps = a_steps;
  steps.insert(b_steps.begin(), b_steps.end());
  std::vector<FileDifference> files;
  DumpComparer comparer(options);
  for (const auto& [step, name] : steps) {
    const bool in_a = a_steps.contains({step, name}), in_b = b_steps.contains({step, name});
    if (in_a && in_b) {
      files.push_back(compare_files(step, name, fs::path(a) / name, fs::path(b) / name, comparer));
    } else {
      files.push_back({name, in_a ? "only in A" : "only in B", {}});
    }
  }
  return files;
}

// The order of the table: infinity for what has no figure, then by the relative difference.
double badness(const TensorDifference& tensor) {
  const bool no_figure = tensor.num_not_finite > 0 || (!tensor.passes && tensor.max_absolute == 0);
  return no_figure ? std::numeric_limits<double>::infinity() : tensor.max_relative;
}

// What the report says of a number of tensors.
struct Count {
  size_t tensors = 0, identical = 0, failing = 0;
  const TensorDifference* worst = nullptr;

  void add(const TensorDifference& tensor) {
    ++tensors;
    identical += tensor.identical;
    failing += !tensor.passes;
    const auto order = [](const TensorDifference& one) {
      return std::pair(!one.passes, badness(one));
    };
    if (worst == nullptr || order(*worst) < order(tensor)) worst = &tensor;
  }
};

std::string in_brackets(const std::string& text) { return text.empty() ? "" : "  (" + text + ")"; }

using Line = std::pair<const FileDifference*, const TensorDifference*>;

void print_lines(std::ostream& out, std::vector<Line> lines, size_t max_lines) {
  if (lines.empty()) return;
  std::stable_sort(lines.begin(), lines.end(), [](const Line& left, const Line& right) {
    return std::pair(left.second->passes, -badness(*left.second)) <
           std::pair(right.second->passes, -badness(*right.second));
  });
  const size_t shown = std::min(lines.size(), max_lines);
  size_t width = 6;
  for (size_t i = 0; i < shown; ++i) width = std::max(width, lines[i].second->name.size());
  width = std::min<size_t>(width, 60);
  const auto column = [&](const auto& value, int size) { out << std::setw(size) << value << "  "; };
  out << std::left << "      " << std::setw(static_cast<int>(width)) << "tensor"
      << "  " << std::right;
  column("max abs", 9);
  column("max rel", 9);
  column("max ulp", 8);
  out << "file\n" << std::setprecision(2) << std::scientific;
  for (size_t i = 0; i < shown; ++i) {
    const auto& [file, tensor] = lines[i];
    const std::string name = quoted_name(tensor->name);
    out << (tensor->passes ? "pass  " : "FAIL  ") << std::left << std::setw(static_cast<int>(width))
        << name.substr(1, name.size() - 2) << "  " << std::right;
    column(tensor->max_absolute, 9);
    column(tensor->max_relative, 9);
    // More says no more than the columns before it.
    column(tensor->max_ulp > 999'999 ? "over 1e6" : concat(tensor->max_ulp), 8);
    out << file->name << in_brackets(tensor->part) << in_brackets(tensor->remark) << "\n";
  }
  if (shown < lines.size()) out << "... and " << lines.size() - shown << " more (--all)\n";
  out << "\n";
}

void print_summary(std::ostream& out, const FileDifference& file) {
  out << (file.passes() ? "pass  " : "FAIL  ") << file.name << ": ";
  if (!file.remark.empty()) {
    out << file.remark << "\n";
    return;
  }
  Count count;
  for (const TensorDifference& tensor : file.tensors) count.add(tensor);
  out << count.tensors << " tensors, " << count.identical << " bitwise the same, "
      << count.tensors - count.identical - count.failing << " within tolerance, " << count.failing
      << " different";
  if (count.identical < count.tensors) {
    out << "; worst " << quoted_name(count.worst->name);
    if (count.worst->max_relative > 0) out << ", max rel " << count.worst->max_relative;
    out << in_brackets(count.worst->part) << in_brackets(count.worst->remark);
  }
  out << "\n";
}

}  // namespace

bool FileDifference::passes() const {
  return remark.empty() && std::all_of(tensors.begin(), tensors.end(),
                                       [](const TensorDifference& one) { return one.passes; });
}

std::vector<FileDifference> compare_paths(const std::string& a, const std::string& b,
                                          const CompareOptions& options) {
  const bool a_is_folder = is_folder(a), b_is_folder = is_folder(b);
  std::vector<FileDifference> files;
  if (a_is_folder && b_is_folder) {
    files = compare_folders(a, b, options);
  } else if (a_is_folder != b_is_folder) {
    throw UserError(concat("cannot compare a file with a folder: ", a, " and ", b));
  } else {
    const std::string name = one_line(fs::path(a).filename().string());
    const std::string b_name = one_line(fs::path(b).filename().string());
    const size_t step =
        step_of_dump(name) == step_of_dump(b_name) ? step_of_dump(name).value_or(0) : 0;
    DumpComparer comparer(options);
    files.push_back(
        compare_files(step, name == b_name ? name : name + " / " + b_name, a, b, comparer));
  }
  size_t num_elements = 0;
  bool all_pass = true;
  for (const FileDifference& file : files) {
    all_pass = all_pass && file.passes();
    for (const TensorDifference& tensor : file.tensors) num_elements += tensor.num_elements;
  }
  if (all_pass && num_elements == 0) {
    throw UserError(concat("nothing to compare: no tensor elements in ", a, " and ", b));
  }
  return files;
}

bool print_report(std::ostream& out, const std::vector<FileDifference>& files,
                  const CompareOptions& options, bool all) {
  std::vector<Line> lines;
  Count count;
  for (const FileDifference& file : files) {
    for (const TensorDifference& tensor : file.tensors) {
      count.add(tensor);
      if (all || !tensor.identical) lines.push_back({&file, &tensor});
    }
  }
  print_lines(out, lines, all ? lines.size() : kMaxLines);
  bool passes = true;
  size_t num_unmatched = 0;
  for (const FileDifference& file : files) {
    print_summary(out, file);
    passes = passes && file.passes();
    num_unmatched += !file.remark.empty();
  }
  out << std::defaultfloat;
  const std::string kind = options.tolerance > 0
                               ? concat("within relative tolerance ", options.tolerance)
                               : std::string("bitwise");
  if (passes) {
    out << "EQUAL " << kind << ": " << count.tensors << " tensors in "
        << counted(files.size(), "file") << "\n";
  } else {
    out << "DIFFERENT (" << kind << "): " << count.failing << " of " << count.tensors
        << " tensors in " << counted(files.size(), "file");
    if (num_unmatched > 0) out << ", " << num_unmatched << " of them on one side only";
    out << "\n";
  }
  return passes;
}

}  // namespace ladder
