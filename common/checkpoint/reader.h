// Reads a checkpoint, whatever layout wrote it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/index.h"
#include "common/io/descriptor.h"
#include "kernels/runtime/stream.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// CheckpointReader reads slices of tensors. It opens only the files that have elements of them,
// reads only the file blocks with these elements, one at a time, and checks each.
class CheckpointReader {
 public:
  // Reads and checks the index. `path` is the checkpoint's folder, such as "c/step_00000050".
  // Throws a UserError that names the file if it is missing, unreadable, damaged or of a newer
  // format, if the folder is a link or has the name of another step, or if it has a file of a rank
  // that the index does not know.
  explicit CheckpointReader(const std::string& path);
  ~CheckpointReader();

  const std::string& path() const { return path_; }
  const CheckpointIndex& index() const { return index_; }

  // Sets `destination`, which is in host memory, to the elements `wanted` of a tensor, such as
  // "param.wte.weight". They are converted to the destination's dtype: exactly if it has more bits,
  // otherwise rounded to nearest. Throws a UserError that names the file if a file is missing,
  // shorter or longer than the index says, or if a file block does not match its checksum.
  // REQUIRES: the checkpoint has the tensor; `wanted` stays within it; destination (wanted.count).
  void read(const std::string& tensor, const PlacedElements& wanted, TensorView destination);

  // Returns how many bytes of tensors have been read so far.
  size_t bytes_read() const { return bytes_read_; }

  // Reads and checks everything. Throws UserError as read() does.
  void verify();

 private:
  struct File;
  // Opens a rank's file unless it is open already.
  File& file(size_t rank);
  // Reads and checks a file block of a slice. REQUIRES: `into` has the file block's size.
  void read_file_block(const std::string& tensor, const StoredSlice& slice, size_t file_block,
                       std::span<std::byte> into);
  // Reads and checks a file block of a slice. It stays in buffer_ until the next call.
  ConstTensorView read_file_block(const std::string& tensor, const StoredSlice& slice,
                                  size_t file_block, DType dtype);

  // Copies elements to where they are wanted, in their dtype.
  void put(TensorView destination, ConstTensorView source);

  std::string path_;
  CheckpointIndex index_;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<std::byte> buffer_;
  size_t bytes_read_ = 0;
  Stream host_stream_{DeviceType::cpu};
};

}  // namespace ladder
