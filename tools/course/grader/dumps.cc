#include "tools/course/grader/dumps.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <vector>

#include "common/io/safetensors.h"
#include "kernels/runtime/check.h"
#include "tools/state/comparison/compare_files.h"

namespace ladder {
namespace {

std::vector<double> numbers_of(const std::string& file, const std::string& tensor) {
  const SafetensorsReader reader(file);
  const SafetensorsEntry* const entry = reader.find(tensor);
  std::vector<double> numbers(entry == nullptr ? 0 : entry->num_elements());
  if (entry != nullptr) {
    reader.read(*entry, TensorView(numbers.data(), DType::fp64, DeviceType::cpu, {numbers.size()}));
  }
  return numbers;
}

// The f for which `a` is f times `b`, if there is one.
std::optional<double> factor_between(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, bb = 0, rest = 0, aa = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    ab += a[i] * b[i];
    bb += b[i] * b[i];
  }
  if (a.size() != b.size() || bb == 0) return {};
  for (size_t i = 0; i < a.size(); ++i) {
    rest += std::pow(a[i] - ab / bb * b[i], 2);
    aa += a[i] * a[i];
  }
  if (aa == 0) return 0;
  return rest < 1e-12 * aa ? std::optional(ab / bb) : std::nullopt;
}

using Wrong = std::vector<const TensorDifference*>;

std::string and_others(const Wrong& wrong) {
  if (wrong.size() == 1) return {};
  return concat("; ", counted(wrong.size() - 1, "more tensor"), " differ too");
}

// The tensor that is most wrong, how wrong, and how many there are.
std::string text_of(const Wrong& wrong, const std::string& learner, const std::string& first) {
  const auto& worst = **std::ranges::max_element(
      wrong, {}, [](const TensorDifference* tensor) { return tensor->max_relative; });
  std::ostringstream text;
  text.precision(3);
  text << worst.name << (worst.part.empty() ? "" : " (" + worst.part + ")");
  if (!worst.remark.empty()) {
    text << ": " << worst.remark;
  } else {
    text << " differs by " << worst.max_relative << " of its size";
  }
  const auto factor =
      factor_between(numbers_of(learner, worst.name), numbers_of(first, worst.name));
  if (factor) text << ", it is " << *factor << " times lesson 01's";
  return text.str() + and_others(wrong);
}

}  // namespace

std::string difference(const Outcome& learner, const Outcome& other, double tolerance,
                       bool gradients_only) {
  const std::string a = learner.folder + "/dump", b = other.folder + "/dump";
  const std::vector<FileDifference> files = compare_paths(a, b, {.tolerance = tolerance});
  for (const FileDifference& file : files) {
    if (!file.remark.empty()) return concat(file.name, ": ", file.remark);
    Wrong gradients, others;
    for (const TensorDifference& tensor : file.tensors) {
      if (!tensor.passes)
        (tensor.name.starts_with("grad.") ? gradients : others).push_back(&tensor);
    }
    const Wrong& wrong = gradients.empty() && !gradients_only ? others : gradients;
    if (!wrong.empty()) {
      return concat(&file == &files[0] ? "step 1: " : "step 1 is right, step 2 is not: ",
                    tolerance == 0
                        ? concat(wrong[0]->name, " is right but for its last bits, ",
                                 "which are not the lesson's", and_others(wrong))
                        : text_of(wrong, concat(a, "/", file.name), concat(b, "/", file.name)));
    }
    if (!others.empty()) break;
  }
  return {};
}

}  // namespace ladder
