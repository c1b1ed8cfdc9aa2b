// Reads and writes safetensors files. Such a file has 8 bytes with the length of the header
// (little-endian), and then a JSON header
//   {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
// which may have a "__metadata__" object of strings. The rest is the data section: the elements of
// every tensor in row-major order, tensor after tensor, without gaps.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/io/direct_writer.h"
#include "common/io/file.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// One tensor of a file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // in the file's spelling: "F32", "F64", "BF16", "I64", ...
  std::vector<size_t> shape;
  size_t begin, end;  // offsets in the data section, in bytes

  size_t num_elements() const;
  // Returns the dtype if it is F32, F64, BF16 or F16, which SafetensorsReader::read takes;
  // otherwise nothing.
  std::optional<DType> float_dtype() const;
};

// Parses and checks the header of a file of `num_bytes` bytes. `head` has the first of them, at
// least the length and the header, and `path` is for messages. Returns the tensors in the order of
// `begin`; together they cover the data section exactly. Throws a UserError of one line, with path,
// tensor and fault, if anything in it is not allowed by the format.
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view head, size_t num_bytes,
                                                       const std::string& path);
// Does the same with a file, of which it reads no more than that.
std::vector<SafetensorsEntry> read_safetensors_header(const InputFile& file);

// Reads tensors of a file, which it keeps open.
class SafetensorsReader {
 public:
  // Throws UserError if the file is missing, unreadable or damaged.
  explicit SafetensorsReader(const std::string& path);

  // Returns the tensors in the order of `begin`.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  // Returns the tensor with this name, or nullptr if there is none.
  const SafetensorsEntry* find(std::string_view name) const;
  // Reads all elements of the tensor and converts them to the destination's floating-point dtype:
  // exactly if that has more bits, otherwise rounded to nearest. The destination may have any shape
  // with the right number of elements. Throws a UserError that names the tensor if it has another
  // number of elements, or a dtype that has no float_dtype(), and an Error if the file has been
  // written to since it was opened. REQUIRES: an entry of this reader, and a destination in host
  // memory.
  void read(const SafetensorsEntry& entry, TensorView destination) const;
  // Does the same for elements first, first + 1, ... of the tensor, as many as the destination has.
  // REQUIRES: the tensor has them.
  void read_part(const SafetensorsEntry& entry, size_t first, TensorView destination) const;

 private:
  std::string path_;
  InputFile file_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<size_t> by_name_;  // indices into entries_, sorted by name
  size_t data_begin_;            // the byte at which the data section begins
};

// Writes a file. It gets its name in finish(), when it is whole; until then an earlier file stays
// (PartialFile). Its metadata has {"format": "pt"}, without which some readers refuse a file.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<size_t> shape;
  };

  // Writes the header, padded so that the data section begins at a multiple of 8 bytes. Throws
  // UserError if the path cannot be written. REQUIRES: names are unique and not "__metadata__".
  SafetensorsWriter(const std::string& path, const std::vector<Tensor>& tensors,
                    const std::map<std::string, std::string>& metadata = {});

  // Writes the next tensor, in the order of `tensors`, or keeps it for the next write
  // (DirectWriter). Throws Error if the disk is full. REQUIRES: the tensor is in host memory, and
  // has the declared dtype and number of elements.
  void write(ConstTensorView host_tensor);
  // Writes the next elements of the next tensor, from its first to its last.
  void write_part(ConstTensorView host_elements);
  // Brings the file to the disk and gives it its name. Throws Error if that fails. REQUIRES: all
  // tensors have been written.
  void finish();

 private:
  void append(ConstTensorView elements, bool is_whole);

  std::vector<Tensor> tensors_;
  size_t next_ = 0;     // the tensor that is being written
  size_t written_ = 0;  // elements of it
  PartialFile file_;
  DirectWriter writer_{file_};
};

}  // namespace ladder
