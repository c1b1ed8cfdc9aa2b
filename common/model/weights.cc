#include "common/model/weights.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <vector>

#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/model/adapter_config.h"
#include "common/model/lora.h"
#include "common/model/slices.h"
#include "kernels/elementwise.h"
#include "kernels/runtime/random.h"

namespace ladder {
namespace {

// The prefixes that names have: none in published files, and others in some files and in dumps.
constexpr std::string_view kDumpPrefix = "param.";
constexpr std::string_view kPrefixes[] = {"",          "transformer.",     "model.",
                                          kDumpPrefix, kGpt2AdapterPrefix, kAdapterPrefix};
constexpr const char* kInitAdapter = "--init-adapter";

// The number of elements that are read and checked at a time.
constexpr size_t kPart = 1 << 16;

// Returns the table of the first operation of this kind, or nullptr.
const Parameter* table_of(const Layout& layout, OperationKind kind) {
  for (const Operation& operation : layout.operations()) {
    if (operation.kind == kind) return &layout.unit(operation.unit).parameters[0];
  }
  return nullptr;
}

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : kPrefixes) {
    if (!prefix.empty() && name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

// Returns whether a dump has a tensor of this name besides its parameters.
bool is_dumped_besides(std::string_view name) {
  const auto is_of = [&](std::string_view kind) { return name.starts_with(concat(kind, ".")); };
  return name == "loss" || name == "grad_norm" ||
         (!is_of(kParam) && std::ranges::any_of(kDumpedKinds, is_of));
}

// Returns whether older files have a tensor of this name, which is computed here: GPT-2's masks and
// the frequencies of rotary positions.
bool is_constant(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

std::string shape_text(const std::vector<size_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += concat(i == 0 ? "" : ", ", shape[i]);
  return text + ")";
}

// Returns the place of an element in a tensor of this shape, as in "(3, 17)".
std::string index_text(size_t index, std::vector<size_t> shape) {
  for (size_t dim = shape.size(); dim-- > 0;) {
    const size_t extent = shape[dim];
    shape[dim] = index % extent;
    index /= extent;
  }
  return shape_text(shape);
}

bool same_shape(const std::vector<size_t>& file, const Shape& expected) {
  if (file.size() != expected.num_dims()) return false;
  for (size_t dim = 0; dim < file.size(); ++dim) {
    if (file[dim] != expected[dim]) return false;
  }
  return true;
}

}  // namespace

void initialize_parameter(Stream& stream, const Parameter& parameter, uint64_t seed, size_t first,
                          TensorView elements) {
  if (parameter.initial_deviation == 0) return fill(stream, elements, parameter.initial_value);
  const uint64_t key = random_key(seed, parameter.name);
  for_ranges_in(parameter, first, first + elements.num_elements(),
                [&](size_t own, size_t at, size_t count) {
                  fill_normal(stream, elements.rows(own - first, count), key, at,
                              parameter.initial_deviation);
                });
}

void initialize_parameters(Stream& stream, const Layout& layout, uint64_t seed, size_t first,
                           TensorView span) {
  for_parameters_in(layout, first, first + span.num_elements(),
                    [&](const Parameter& parameter, size_t begin, size_t from, size_t to) {
                      initialize_parameter(stream, parameter, seed, from - begin,
                                           span.rows(from - first, to - from));
                    });
}

std::vector<SafetensorsWriter::Tensor> tensors_of(
    const ModelDescription& model, DType dtype, const std::string& prefix,
    const std::function<bool(const ParameterSpec&)>& is_wanted) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (is_wanted && !is_wanted(parameter)) continue;
      std::vector<size_t> shape;
      for (size_t dim = 0; dim < parameter.shape.num_dims(); ++dim) {
        shape.push_back(parameter.shape[dim]);
      }
      tensors.push_back({prefix + parameter.name, dtype, shape});
    }
  }
  return tensors;
}

WeightsFile::WeightsFile(const std::string& path, const Layout& layout, const char* flag)
    : flag_(flag), path_(path), reader_(named_by(flag, [&] { return SafetensorsFiles(path); })) {
  const auto has_adapter = [](const SafetensorsEntry& entry) { return is_adapter(entry.name); };
  const bool has_adapters = std::ranges::any_of(reader_.entries(), has_adapter);
  for (const Unit& unit : layout.units()) {
    // A head may be missing, which is then a new one.
    if (unit.name == kHeadUnit && find(unit.parameters[0].name) == nullptr) continue;
    for (const Parameter& parameter : unit.parameters) {
      const bool is_there =
          is_adapter(parameter.name) ? has_adapters || has_only_adapters() : !has_only_adapters();
      if (is_there) check_tensor(parameter, layout);
    }
  }
  check_extra_tensors(layout);
  const bool has_tied_head = !layout.config().untied && layout.config().labels.empty();
  if (has_tied_head && !has_only_adapters()) check_tied_head(layout);
}

WeightsFile WeightsFile::of_adapters(const std::string& folder, const Layout& layout) {
  const std::string file = concat(folder, "/", kAdapterWeights),
                    old = folder + "/adapter_model.bin";
  std::error_code error;
  if (!std::filesystem::exists(file, error) && std::filesystem::exists(old, error)) {
    throw UserError(concat(kInitAdapter, " ", folder, ": the folder has no ", kAdapterWeights,
                           "; load its adapter_model.bin in peft and save it anew"));
  }
  return {file, layout, kInitAdapter};
}

bool WeightsFile::has_only_adapters() const { return flag_ == std::string_view(kInitAdapter); }

void WeightsFile::refuse(const std::string& what) const {
  throw UserError(concat(flag_, " ", path_, ": tensor ", what));
}

const SafetensorsEntry* WeightsFile::find(const std::string& name) const {
  for (const std::string_view prefix : kPrefixes) {
    if (const SafetensorsEntry* entry = reader_.find(concat(prefix, name))) return entry;
  }
  return nullptr;
}

void WeightsFile::check_tensor(const Parameter& parameter, const Layout& layout) const {
  const SafetensorsEntry* entry = find(parameter.name);
  if (entry == nullptr) refuse(parameter.name + " is missing");
  const Shape& needed = parameter.full_shape;
  // A model with shorter sequences has only the first rows of its positions.
  const bool is_positions = &parameter == table_of(layout, OperationKind::position_embedding);
  const bool has_rows = is_positions && entry->shape.size() == 2 && entry->shape[1] == needed[1] &&
                        entry->shape[0] != needed[0];
  if (has_rows && entry->shape[0] < needed[0]) {
    refuse(concat(entry->name, " has ", entry->shape[0], " positions, fewer than ",
                  "--sequence-length ", needed[0]));
  }
  if (!has_rows && !same_shape(entry->shape, needed)) {
    refuse(concat(entry->name, " has shape ", shape_text(entry->shape), ", the model needs ",
                  to_string(needed)));
  }
  if (!entry->float_dtype()) {
    refuse(concat(entry->name, " is ", entry->dtype, ", expected F32, F64, BF16 or F16"));
  }
}

void WeightsFile::check_extra_tensors(const Layout& layout) const {
  std::set<std::string, std::less<>> known;
  if (!has_only_adapters()) known.insert("lm_head.weight");
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) {
      if (is_adapter(parameter.name) || !has_only_adapters()) known.insert(parameter.name);
    }
  }
  const bool is_dump = std::ranges::any_of(
      reader_.entries(), [](const auto& entry) { return entry.name.starts_with(kDumpPrefix); });
  std::set<std::string, std::less<>> seen;
  for (const SafetensorsEntry& entry : reader_.entries()) {
    const std::string_view name = without_prefix(entry.name);
    if (is_constant(name) || (is_dump && is_dumped_besides(name))) continue;
    if (!known.contains(name)) refuse(quoted_name(entry.name) + " is not part of the model");
    if (!seen.emplace(name).second) {
      refuse(concat(name, " is there twice, with different prefixes"));
    }
  }
}

void WeightsFile::check_tied_head(const Layout& layout) const {
  const SafetensorsEntry* head = find("lm_head.weight");
  if (head == nullptr) return;
  const SafetensorsEntry* table = find(table_of(layout, OperationKind::token_embedding)->name);
  bool equal = head->shape == table->shape && head->float_dtype().has_value();
  std::vector<double> a, b;
  for (size_t first = 0; equal && first < head->num_elements(); first += kPart) {
    const size_t count = std::min(kPart, head->num_elements() - first);
    a.resize(count);
    b.resize(count);
    reader_.read_part(*head, first, TensorView(a.data(), DType::fp64, DeviceType::cpu, {count}));
    reader_.read_part(*table, first, TensorView(b.data(), DType::fp64, DeviceType::cpu, {count}));
    // Two NaNs count as equal here; read() refuses them later.
    equal = std::ranges::equal(
        a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
  }
  if (!equal) {
    refuse(concat(head->name, " differs from ", table->name,
                  "; a tied model has one tensor for both, --untied two"));
  }
}

void WeightsFile::read_part(const SafetensorsEntry& entry, size_t first,
                            TensorView destination) const {
  reader_.read_part(entry, first, destination);
  dispatch_float(destination.dtype(), [&](auto zero) {
    const auto* const elements = destination.as<decltype(zero)>();
    for (size_t i = 0; i < destination.num_elements(); ++i) {
      if (!std::isfinite(static_cast<double>(elements[i]))) {
        refuse_element(entry, first + i, destination.dtype());
      }
    }
  });
}

void WeightsFile::read(const Parameter& parameter, TensorView destination) const {
  read_part(*find(parameter.name), 0, destination);
}

void WeightsFile::check_values(const Layout& layout, DType dtype) const {
  std::vector<double> buffer(kPart);  // large enough for every dtype
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) {
      if (!has(parameter)) continue;
      const size_t num_elements = parameter.full_shape.num_elements();
      for (size_t first = 0; first < num_elements; first += kPart) {
        const size_t count = std::min(kPart, num_elements - first);
        read_part(*find(parameter.name), first,
                  TensorView(buffer.data(), dtype, DeviceType::cpu, {count}));
      }
    }
  }
}

void WeightsFile::refuse_element(const SafetensorsEntry& entry, size_t index, DType dtype) const {
  double value = 0;
  reader_.read_part(entry, index, TensorView(&value, DType::fp64, DeviceType::cpu, {1}));
  const std::string element =
      concat(entry.name, ", element ", index_text(index, entry.shape), ", is ");
  if (!std::isfinite(value)) refuse(concat(element, value, "; weights are finite numbers"));
  const bool fits_fp32 = std::abs(value) <= std::numeric_limits<float>::max();
  refuse(concat(element, value, ", beyond the largest number of ", name_of(dtype),
                "; take --dtype ", fits_fp32 ? "fp32" : "fp64"));
}

}  // namespace ladder
