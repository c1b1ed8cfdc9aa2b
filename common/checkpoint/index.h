// The index of a checkpoint, checkpoint.json: what was trained, how far, and which elements of each
// tensor are in which file.
//
// A checkpoint is a folder, such as step_00000050:
//   rank_0000.safetensors   the slices that rank 0 owned, one after the other
//   rank_0001.safetensors   those of rank 1, and so on
//   checkpoint.json         the index
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/grid/process_grid.h"
#include "common/model/config.h"
#include "common/optimizer/rule.h"
#include "kernels/runtime/dtype.h"

namespace ladder {

// Every index says that it is one, near its beginning.
inline constexpr const char* kCheckpointFormat = "ladder checkpoint";

// A slice's elements are checked in file blocks of so many bytes, each with a checksum of its own.
// So a rank that needs a part of a slice reads, and checks, only the file blocks with this part.
inline constexpr size_t kFileBlockBytes = size_t{1} << 20;

// Elements [first, first + count) of the part of a tensor that a rank held. The part's elements,
// counted from 0, are the ranges of the whole tensor (Ranges in parameter.h).
struct PlacedElements {
  Ranges ranges;
  size_t first = 0, count = 0;
};

// A slice in a file. The file has it as a tensor of `count` elements with the tensor's name.
struct StoredSlice {
  size_t rank = 0;  // the number of the file
  PlacedElements elements;
  std::vector<uint64_t> checksums;  // XXH3, 64 bits, of each file block
};

// A tensor of the checkpoint. Its slices hold each of its elements once.
struct StoredTensor {
  DType dtype = DType::fp32;
  std::vector<size_t> shape;
  std::vector<StoredSlice> slices;
};

using ScalarValue = std::variant<int64_t, double>;

struct CheckpointIndex {
  static constexpr int64_t kVersion = 1;

  std::string lesson;  // the program that wrote it
  ModelConfig model;
  ProcessGrid layout;         // of the ranks that wrote it; its world_size() is the files'
  DType dtype = DType::fp32;  // of --dtype
  std::map<std::string, ScalarValue> scalars;  // "step" is always there
  // What else decides the numbers, such as --learning-rate, and the data: texts to compare.
  std::map<std::string, std::string> settings;
  std::map<std::string, StoredTensor> tensors;  // "param.wte.weight", "exp_avg.wte.weight", ...

  // Returns what updated the model. Only a run with another optimizer than AdamW names it.
  OptimizerConfig optimizer() const { return optimizer_of(settings); }
  int64_t step() const { return std::get<int64_t>(scalars.at("step")); }
};

// Returns the index as text: JSON with a checksum of itself.
std::string to_text(const CheckpointIndex& index);

// Throws UserError if a file of so many bytes is too large for an index, before it is read.
void check_index_bytes(size_t bytes, const std::string& path);
// Parses the text of an index. `path` is for messages. Throws a UserError of one line, with the
// path and the fault, if it is not what to_text() writes: another or a newer format, a changed
// byte, a tensor that is not the model's, or slices that do not hold each element exactly once.
CheckpointIndex parse_index(std::string_view text, const std::string& path);

// The part of an index that one rank writes: its slices, by tensor.
nlohmann::json to_json(const std::map<std::string, StoredTensor>& tensors);
// Parses such a part. Throws UserError as parse_index() does.
std::map<std::string, StoredTensor> parse_tensors(std::string_view text, const std::string& path);

// Returns the name of a rank's file, such as "rank_0003.safetensors".
std::string rank_file_name(size_t rank);
// Returns the rank if it is the name of a rank's file.
std::optional<size_t> rank_of_file(const std::string& name);
// Returns the elements of a file block of a tensor of this dtype.
inline size_t file_block_elements(DType dtype) { return kFileBlockBytes / size_of(dtype); }

}  // namespace ladder
