#include "common/model/weights.h"

#include <algorithm>
#include <set>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/runtime/random.h"

namespace ladder {
namespace {

constexpr std::string_view kPrefix = "transformer.";

bool is_mask(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

std::string shape_text(const std::vector<size_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += concat(i == 0 ? "" : ", ", shape[i]);
  return text + ")";
}

bool same_shape(const std::vector<size_t>& file, const Shape& expected) {
  if (file.size() != expected.num_dims()) return false;
  for (size_t dim = 0; dim < file.size(); ++dim) {
    if (file[dim] != expected[dim]) return false;
  }
  return true;
}

}  // namespace

void initialize_parameters(Stream& stream, const Layout& layout, uint64_t seed, size_t first,
                           TensorView span) {
  for_parameters_in(layout, first, first + span.num_elements(),
                    [&](const Parameter& parameter, size_t begin, size_t from, size_t to) {
                      const TensorView part = span.rows(from - first, to - from);
                      if (parameter.initial_deviation == 0) {
                        return fill(stream, part, parameter.initial_value);
                      }
                      const uint64_t key = random_key(seed, parameter.name);
                      for_runs_in(parameter, from - begin, to - begin,
                                  [&](size_t run, size_t at, size_t count) {
                                    fill_normal(stream, part.rows(run + begin - from, count), key,
                                                at, parameter.initial_deviation);
                                  });
                    });
}

WeightsFile::WeightsFile(const std::string& path, const Layout& layout)
    : path_(path), reader_(path) {
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) {
      const SafetensorsEntry* entry = find(parameter.name);
      if (entry == nullptr) {
        throw UserError(concat("--init ", path, ": tensor ", parameter.name, " is missing"));
      }
      if (!same_shape(entry->shape, parameter.full_shape)) {
        throw UserError(concat("--init ", path, ": tensor ", entry->name, " has shape ",
                               shape_text(entry->shape), ", the model needs ",
                               to_string(parameter.full_shape)));
      }
      if (!entry->float_dtype()) {
        throw UserError(concat("--init ", path, ": tensor ", entry->name, " is ", entry->dtype,
                               ", expected F32, F64, BF16 or F16"));
      }
    }
  }
  check_extra_tensors(layout);
  check_tied_head();
}

const SafetensorsEntry* WeightsFile::find(const std::string& name) const {
  const SafetensorsEntry* entry = reader_.find(name);
  return entry != nullptr ? entry : reader_.find(concat(kPrefix, name));
}

void WeightsFile::check_extra_tensors(const Layout& layout) const {
  std::set<std::string, std::less<>> known = {"lm_head.weight"};
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) known.insert(parameter.name);
  }
  std::set<std::string, std::less<>> seen;
  for (const SafetensorsEntry& entry : reader_.entries()) {
    std::string_view name = entry.name;
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    if (is_mask(name)) continue;
    if (!known.contains(name)) {
      throw UserError(
          concat("--init ", path_, ": tensor ", entry.name, " is not part of the model"));
    }
    if (!seen.emplace(name).second) {
      throw UserError(concat("--init ", path_, ": tensor ", name,
                             " is there twice, with and without ", kPrefix));
    }
  }
}

void WeightsFile::check_tied_head() const {
  const SafetensorsEntry* head = find("lm_head.weight");
  if (head == nullptr) return;
  const SafetensorsEntry* wte = find("wte.weight");
  bool equal = head->shape == wte->shape && head->float_dtype().has_value();
  if (equal) {
    std::vector<double> a(head->num_elements()), b(wte->num_elements());
    const Shape shape = {a.size()};
    reader_.read(*head, TensorView(a.data(), DType::fp64, DeviceType::cpu, shape));
    reader_.read(*wte, TensorView(b.data(), DType::fp64, DeviceType::cpu, shape));
    equal = a == b;
  }
  if (!equal) {
    throw UserError(concat("--init ", path_, ": ", head->name, " differs from ", wte->name,
                           "; GPT-2 uses one tensor for both"));
  }
}

void WeightsFile::read(const Parameter& parameter, TensorView destination) const {
  reader_.read(*find(parameter.name), destination);
}

}  // namespace ladder
