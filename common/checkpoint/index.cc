#include "common/checkpoint/index.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "common/checkpoint/json_path.h"
#include "common/checkpoint/model_json.h"
#include "common/checkpoint/overlap.h"
#include "common/io/text.h"
#include "common/model/description.h"
#include "common/model/slices.h"

namespace ladder {
namespace {

// GPT-2 XL on 1,024 ranks has an index of 15 MB.
constexpr size_t kMostBytes = size_t{1} << 28;

std::string checksum_of(const Json& json) {
  const std::string text = json.dump();
  return format("%016lx", XXH3_64bits(text.data(), text.size()));
}

Json to_json(const StoredSlice& slice) {
  const Ranges& ranges = slice.elements.ranges;
  Json checksums = Json::array();
  for (uint64_t checksum : slice.checksums) checksums.push_back(format("%016lx", checksum));
  return {{"rank", slice.rank},
          {"runs", {ranges.first, ranges.length, ranges.stride}},
          {"range", {slice.elements.first, slice.elements.count}},
          {"checksums", checksums}};
}

uint64_t parse_checksum(const Json& value, const JsonPath& reader) {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    reader.refuse("\"checksums\": expected strings of 16 hexadecimal digits");
  }
  return std::stoull(text, nullptr, 16);
}

// Throws UserError unless the ranges stay within a tensor of so many elements.
void check_elements(const PlacedElements& elements, size_t total, const JsonPath& reader) {
  const auto& [ranges, first, count] = elements;
  if (ranges.length == 0 || ranges.stride < ranges.length || count == 0 || ranges.first >= total ||
      first >= total || count > total - first) {
    reader.refuse("a slice with ranges ", ranges.first, ", ", ranges.length, ", ", ranges.stride,
                  " and range ", first, ", ", count, " of ", total, " elements");
  }
  const size_t last = first + count - 1, left = total - ranges.first;
  const size_t range = last / ranges.length, within = last % ranges.length;
  if (within >= left || range > (left - within - 1) / ranges.stride) {
    reader.refuse("a slice goes beyond the tensor's ", total, " elements");
  }
}

StoredSlice parse_slice(const Json& json, DType dtype, size_t total, const JsonPath& reader) {
  StoredSlice slice;
  slice.rank = reader.number(json, "rank", 0, kMostRanks);
  const std::vector<size_t> ranges = reader.numbers(json, "runs", 3, total);
  const std::vector<size_t> range = reader.numbers(json, "range", 2, total);
  slice.elements = {{ranges[0], ranges[1], ranges[2]}, range[0], range[1]};
  check_elements(slice.elements, total, reader);
  const Json& checksums = reader.at(json, "checksums");
  const size_t most = file_block_elements(dtype), num_file_blocks = (range[1] + most - 1) / most;
  if (!checksums.is_array() || checksums.size() != num_file_blocks) {
    reader.refuse("\"checksums\": expected ", num_file_blocks, ", one for each file block of ",
                  kFileBlockBytes, " bytes");
  }
  for (const Json& value : checksums) slice.checksums.push_back(parse_checksum(value, reader));
  return slice;
}

StoredTensor parse_tensor(const Json& json, const JsonPath& reader) {
  constexpr size_t kMostElements = size_t{1} << 60;
  StoredTensor tensor;
  tensor.dtype = reader.float_dtype(json, "dtype");
  const Json& shape = reader.at(json, "shape");
  if (!shape.is_array() || shape.empty() || shape.size() > 2) {
    reader.refuse("\"shape\": expected one or two integers");
  }
  size_t total = 1;
  for (const Json& extent : shape) {
    tensor.shape.push_back(reader.checked(extent, "shape", 1, kMostElements / total));
    total *= tensor.shape.back();
  }
  const Json& slices = reader.at(json, "slices");
  if (!slices.is_array()) reader.refuse("\"slices\": expected an array");
  for (const Json& slice : slices) {
    tensor.slices.push_back(parse_slice(slice, tensor.dtype, total, reader));
  }
  return tensor;
}

std::map<std::string, StoredTensor> parse_tensors(const Json& json, const JsonPath& reader) {
  if (!json.is_object()) reader.refuse("\"tensors\": expected an object");
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [name, tensor] : json.items()) {
    tensors[name] = parse_tensor(tensor, reader.in(concat("tensor ", quoted_name(name))));
  }
  return tensors;
}

// Throws UserError unless the slices have each element of the tensor exactly once, and each file
// has at most one slice.
void check_slices(const StoredTensor& tensor, size_t num_files, const JsonPath& reader) {
  size_t total = 1;
  for (size_t extent : tensor.shape) total *= extent;
  std::set<size_t> ranks;
  std::vector<PlacedElements> slices;
  for (const StoredSlice& slice : tensor.slices) {
    if (slice.rank >= num_files) {
      reader.refuse("a slice of rank ", slice.rank, " of ", num_files, " ranks");
    }
    if (!ranks.insert(slice.rank).second) reader.refuse("two slices of rank ", slice.rank);
    slices.push_back(slice.elements);
  }
  const std::string fault = cover_fault(slices, total);
  if (!fault.empty()) reader.refuse(fault);
}

// Throws UserError unless the tensors are those of the model, each in full.
void check_tensors(const CheckpointIndex& index, const JsonPath& reader) {
  std::map<std::string, std::vector<size_t>> shapes;
  std::set<std::string> needed;
  const OptimizerConfig optimizer = index.optimizer();
  if (!is_optimizer(optimizer.name)) reader.refuse("no optimizer ", quoted_name(optimizer.name));
  for (const UnitSpec& unit : describe(index.model).units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      std::vector<size_t>& shape = shapes[parameter.name];
      for (size_t d = 0; d < parameter.shape.num_dims(); ++d) shape.push_back(parameter.shape[d]);
      for (std::string_view kind : kStoredKinds) {
        if (keeps(optimizer, kind, parameter)) needed.insert(concat(kind, ".", parameter.name));
      }
    }
  }
  for (const auto& [name, tensor] : index.tensors) {
    const JsonPath here = reader.in(concat("tensor ", quoted_name(name)));
    const auto shape = shapes.find(name.substr(std::min(name.size(), name.find('.') + 1)));
    if (shape == shapes.end()) here.refuse("is not part of the model");
    if (shape->second != tensor.shape) here.refuse("has another shape than in the model");
    check_slices(tensor, index.layout.world_size(), here);
  }
  for (const std::string& name : needed) {
    if (!index.tensors.contains(name)) reader.refuse("tensor ", name, " is missing");
  }
}

ProcessGrid parse_layout(const Json& json, const JsonPath& reader) {
  ProcessGrid grid;
  size_t left = kMostRanks;
  const auto size = [&](const char* axis) {
    const size_t ranks = reader.number(json, axis, 1, left);
    left /= ranks;
    return ranks;
  };
  grid.pipeline_size = size("pipeline");
  grid.data_size = size("data");
  grid.context_size = size("context");
  grid.tensor_size = size("tensor");
  return grid;
}

// At least `least_updates` updates of the parameters have been made.
std::map<std::string, ScalarValue> parse_scalars(const Json& json, int64_t least_updates,
                                                 const JsonPath& reader) {
  std::map<std::string, ScalarValue> scalars;
  if (!json.is_object()) reader.refuse("\"scalars\": expected an object");
  for (const auto& [name, value] : json.items()) {
    if (value.is_number_float() && std::isfinite(value.get<double>())) {
      scalars[name] = value.get<double>();
    } else if (value.is_number_unsigned() ? value.get<uint64_t>() <= INT64_MAX
                                          : value.is_number_integer()) {
      scalars[name] = value.get<int64_t>();
    } else {
      reader.refuse("scalar ", quoted_name(name), ": expected a number");
    }
  }
  const auto check_count = [&](const char* name, int64_t least, int64_t most) {
    const auto at = scalars.find(name);
    const auto* const count = at == scalars.end() ? nullptr : std::get_if<int64_t>(&at->second);
    if (count != nullptr && *count >= least && *count <= most) return *count;
    const std::string end = most == INT64_MAX ? "" : concat(" to the step, ", most);
    reader.refuse(quoted_name(name), ": expected an integer from ", least, end);
  };
  check_count("updates", least_updates, check_count("step", 1, INT64_MAX));
  return scalars;
}

}  // namespace

std::string rank_file_name(size_t rank) { return format("rank_%04zu.safetensors", rank); }

std::optional<size_t> rank_of_file(const std::string& name) {
  constexpr std::string_view kBegin = "rank_";
  size_t rank = 0;
  if (!name.starts_with(kBegin)) return std::nullopt;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + kBegin.size(), end, rank);
  const bool is_file = parsed.ec == std::errc() && name == rank_file_name(rank);
  return is_file ? std::optional(rank) : std::nullopt;
}

Json to_json(const std::map<std::string, StoredTensor>& tensors) {
  Json json = Json::object();
  for (const auto& [name, tensor] : tensors) {
    Json slices = Json::array();
    for (const StoredSlice& slice : tensor.slices) slices.push_back(to_json(slice));
    json[name] = {{"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}, {"slices", slices}};
  }
  return json;
}

std::map<std::string, StoredTensor> parse_tensors(std::string_view text, const std::string& path) {
  return parse_tensors(JsonPath(path).parse(text), JsonPath(path));
}

namespace {

// Returns the object with each of its values on a line, and so each tensor.
std::string in_lines(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    text += concat(text.empty() ? "{" : ",", "\n", Json(key).dump(), ": ",
                   key == "tensors" ? in_lines(value) : value.dump());
  }
  return text + "\n}\n";
}

}  // namespace

std::string to_text(const CheckpointIndex& index) {
  const ProcessGrid& grid = index.layout;
  Json json = {{"format", kCheckpointFormat}, {"version", CheckpointIndex::kVersion}};
  json["lesson"] = index.lesson;
  json["model"] = to_json(index.model);
  json["layout"] = {{"pipeline", grid.pipeline_size},
                    {"data", grid.data_size},
                    {"context", grid.context_size},
                    {"tensor", grid.tensor_size}};
  json["dtype"] = name_of(index.dtype);
  json["scalars"] = Json::object();
  for (const auto& [name, value] : index.scalars) {
    std::visit([&, key = name](auto number) { json["scalars"][key] = number; }, value);
  }
  json["settings"] = index.settings;
  json["tensors"] = to_json(index.tensors);
  json["checksum"] = checksum_of(json);
  return in_lines(json);
}

void check_index_bytes(size_t bytes, const std::string& path) {
  if (bytes <= kMostBytes) return;
  JsonPath(path).refuse("has ", bytes, " bytes; the index of a checkpoint has at most ",
                        kMostBytes);
}

CheckpointIndex parse_index(std::string_view text, const std::string& path) {
  const JsonPath reader(path);
  check_index_bytes(text.size(), path);
  Json json = reader.parse(text);
  if (json.value("format", Json()) != kCheckpointFormat) {
    reader.refuse("is not the index of a checkpoint");
  }
  const size_t version = reader.number(json, "version", 1, SIZE_MAX);
  if (version > CheckpointIndex::kVersion) {
    reader.refuse("has version ", version, " of the format, this program knows up to ",
                  CheckpointIndex::kVersion, "; read it with a newer one");
  }
  const std::string checksum = reader.string(json, "checksum");
  json.erase("checksum");
  if (checksum_of(json) != checksum) reader.refuse("does not match its checksum: it is damaged");

  CheckpointIndex index;
  index.lesson = reader.string(json, "lesson");
  index.model = parse_model(reader.at(json, "model"), reader.in("model"));
  index.layout = parse_layout(reader.at(json, "layout"), reader.in("layout"));
  index.dtype = reader.float_dtype(json, "dtype");
  const bool skips = index.dtype == DType::fp16;  // steps whose gradients overflow
  index.scalars = parse_scalars(reader.at(json, "scalars"), skips ? 0 : 1, reader);
  const Json& settings = reader.at(json, "settings");
  if (!settings.is_object()) reader.refuse("\"settings\": expected an object");
  for (const auto& [name, value] : settings.items()) {
    index.settings[name] = reader.string(settings, name.c_str());
  }
  index.tensors = parse_tensors(reader.at(json, "tensors"), reader);
  check_tensors(index, reader);
  return index;
}

}  // namespace ladder
