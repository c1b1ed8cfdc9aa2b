// Safetensors files: 8 bytes header length (little-endian), a JSON header
//   {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
// optionally with a "__metadata__" object of strings, then the data section: every tensor's
// elements in row-major order, tensor after tensor, without gaps.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/io/file.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// One tensor of a file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as the file spells it: "F32", "F64", "BF16", "I64", ...
  std::vector<size_t> shape;
  size_t begin, end;  // bytes, relative to the data section

  size_t num_elements() const;
  // Of F32, F64, BF16 and F16, which SafetensorsReader::read takes; nothing for others.
  std::optional<DType> float_dtype() const;
};

// Parses and checks the header of the file whose bytes are `file`; `path` is for messages only.
// Returns the tensors in order of `begin`; together they cover the data section exactly.
// UserError: anything the format does not allow, in one line that names path, tensor and fault.
std::vector<SafetensorsEntry> parse_safetensors_header(std::span<const std::byte> file,
                                                       const std::string& path);

// Reads tensors of a file, which it keeps mapped.
class SafetensorsReader {
 public:
  // UserError: missing, unreadable, damaged.
  explicit SafetensorsReader(const std::string& path);

  // In order of `begin`.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  // nullptr if there is no such tensor.
  const SafetensorsEntry* find(std::string_view name) const;
  // destination[i] = element i of the tensor, converted to the destination's floating-point dtype:
  // exact where that has more bits, else rounded to nearest. Any shape of the right number of
  // elements will do.
  // UserError, naming the tensor: another dtype in the file, another number of elements.
  // REQUIRES: an entry of this reader; host memory.
  void read(const SafetensorsEntry& entry, TensorView destination) const;
  // The same of elements `first`, first + 1, ... of the tensor, as many as the destination has.
  // REQUIRES: the tensor has them.
  void read_part(const SafetensorsEntry& entry, size_t first, TensorView destination) const;

 private:
  std::string path_;
  MappedFile file_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<size_t> by_name_;         // indices into entries_, sorted by name
  std::span<const std::byte> section_;  // the data section
};

// Writes a file that gets its name when it is whole, by finish(); until then an earlier file stays
// (PartialFile). Its metadata says {"format": "pt"}, without which some readers refuse a file.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<size_t> shape;
  };

  // Writes the header, padded so that the data section begins at a multiple of 8 bytes.
  // UserError: the path cannot be written. REQUIRES: names are unique and not "__metadata__".
  SafetensorsWriter(const std::string& path, const std::vector<Tensor>& tensors);

  // Writes the next tensor in the declared order. Throws Error when the disk is full.
  // REQUIRES: host memory, the declared dtype and number of elements.
  void write(ConstTensorView host_tensor);
  // Brings the file to the disk and gives it its name. Throws Error if that fails.
  // REQUIRES: all tensors are written.
  void finish();

 private:
  std::vector<Tensor> tensors_;
  size_t next_ = 0;
  PartialFile file_;
};

}  // namespace ladder
