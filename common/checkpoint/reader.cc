#include "common/checkpoint/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "common/checkpoint/folder.h"
#include "common/checkpoint/overlap.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/io/safetensors.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

// Throws UserError unless there is a folder, itself and not a link to one.
void check_folder(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) {
    throw UserError(concat(path, ": cannot be read: ", std::strerror(errno)));
  }
  if (!S_ISDIR(status.st_mode)) {
    throw UserError(concat(path, ": is ", S_ISLNK(status.st_mode) ? "a link" : kind_of(status),
                           ", expected the folder of a checkpoint"));
  }
}

// Throws UserError if there is a file of a rank that the index does not know.
void check_files(const std::string& path, size_t num_files) {
  std::error_code error;
  fs::directory_iterator at(path, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename();
    if (!name.starts_with("rank_") || !name.ends_with(".safetensors")) continue;
    if (rank_of_file(name).value_or(num_files) >= num_files) {
      throw UserError(concat(path, "/", one_line(name), ": does not belong to this checkpoint of ",
                             num_files, " ranks"));
    }
  }
  if (error) throw UserError(concat(path, ": cannot be read: ", error.message()));
}

size_t elements_of_file_block(const StoredSlice& slice, size_t file_block, DType dtype) {
  const size_t size = file_block_elements(dtype);
  return std::min(size, slice.elements.count - file_block * size);
}

}  // namespace

// The file of a rank.
struct CheckpointReader::File {
  // Lets the system read ahead if [begin, end) follows what was read before.
  void read_ahead(size_t begin, size_t end);

  std::string path;
  Descriptor descriptor;
  size_t read_end = 0;                   // byte at which the last read ended
  size_t ahead_end = 0;                  // byte up to which the system reads ahead
  size_t data_begin = 0;                 // byte at which the data section begins
  std::map<std::string, size_t> begins;  // of each tensor in the data section
};

void CheckpointReader::File::read_ahead(size_t begin, size_t end) {
  // Many disks are fast only if they have so much to do. The system's own reading ahead stays far
  // below that.
  constexpr size_t kAhead = size_t{32} << 20, kRequest = size_t{8} << 20;
  const bool continues = begin == read_end;
  if (!continues) ahead_end = end;
  read_end = end;
  while (continues && ahead_end < end + kAhead) {
    posix_fadvise(descriptor.number(), static_cast<off_t>(ahead_end), kRequest,
                  POSIX_FADV_WILLNEED);
    ahead_end += kRequest;
  }
}

CheckpointReader::CheckpointReader(const std::string& path) : path_(path) {
  check_folder(path);
  const std::string index = path + "/checkpoint.json";
  const InputFile file(index);
  check_index_bytes(file.size(), index);
  index_ = parse_index(file.text(0, file.size()), index);
  std::error_code error;
  const fs::path whole = fs::canonical(path, error);
  if (step_of_checkpoint(whole.filename()).value_or(index_.step()) != index_.step()) {
    throw UserError(concat(path, ": the index says step ", index_.step(),
                           ", but the folder's name says another step"));
  }
  files_.resize(index_.layout.world_size());
  check_files(path, files_.size());
}

CheckpointReader::~CheckpointReader() = default;

CheckpointReader::File& CheckpointReader::file(size_t rank) {
  if (files_[rank]) return *files_[rank];
  auto file = std::make_unique<File>();
  file->path = concat(path_, "/", rank_file_name(rank));
  {
    const InputFile opened(file->path);
    const std::vector<SafetensorsEntry> entries = read_safetensors_header(opened);
    const size_t data_bytes = entries.empty() ? 0 : entries.back().end;
    file->data_begin = opened.size() - data_bytes;
    file->read_end = file->ahead_end = file->data_begin;
    for (const SafetensorsEntry& entry : entries) {
      const auto tensor = index_.tensors.find(entry.name);
      const StoredSlice* slice = nullptr;
      if (tensor != index_.tensors.end()) {
        for (const StoredSlice& candidate : tensor->second.slices) {
          if (candidate.rank == rank) slice = &candidate;
        }
      }
      if (slice == nullptr || entry.num_elements() != slice->elements.count ||
          entry.float_dtype() != tensor->second.dtype) {
        throw UserError(concat(file->path, ": tensor ", quoted_name(entry.name),
                               " is not what checkpoint.json says"));
      }
      file->begins[entry.name] = entry.begin;
    }
  }
  file->descriptor = Descriptor(open(file->path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file->descriptor.is_open()) {
    throw UserError(concat(file->path, ": cannot be read: ", std::strerror(errno)));
  }
  files_[rank] = std::move(file);
  return *files_[rank];
}

void CheckpointReader::read_file_block(const std::string& tensor, const StoredSlice& slice,
                                       size_t file_block, std::span<std::byte> into) {
  File& from = file(slice.rank);
  const auto begin = from.begins.find(tensor);
  if (begin == from.begins.end()) {
    throw UserError(concat(from.path, ": tensor ", quoted_name(tensor), " is missing"));
  }
  const size_t first = file_block * kFileBlockBytes, at = from.data_begin + begin->second + first;
  from.read_ahead(at, at + into.size());
  for (size_t done = 0; done < into.size();) {
    const ssize_t count = pread(from.descriptor.number(), into.data() + done, into.size() - done,
                                static_cast<off_t>(at + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw UserError(concat(from.path, ": tensor ", quoted_name(tensor), " cannot be read: ",
                             count < 0 ? std::strerror(errno) : "the file has become shorter"));
    }
    done += static_cast<size_t>(count);
  }
  bytes_read_ += into.size();
  if (XXH3_64bits(into.data(), into.size()) != slice.checksums[file_block]) {
    throw UserError(concat(from.path, ": tensor ", quoted_name(tensor), ", bytes ", first, " to ",
                           first + into.size(),
                           ": do not match their checksum; the file is "
                           "damaged, or of another step"));
  }
}

ConstTensorView CheckpointReader::read_file_block(const std::string& tensor,
                                                  const StoredSlice& slice, size_t file_block,
                                                  DType dtype) {
  const size_t count = elements_of_file_block(slice, file_block, dtype);
  buffer_.resize(count * size_of(dtype));
  read_file_block(tensor, slice, file_block, buffer_);
  return ConstTensorView(buffer_.data(), dtype, DeviceType::cpu, {count});
}

void CheckpointReader::read(const std::string& tensor, const PlacedElements& wanted,
                            TensorView destination) {
  const StoredTensor& stored = index_.tensors.at(tensor);
  check(destination.device() == DeviceType::cpu && destination.num_elements() == wanted.count,
        "CheckpointReader::read: another destination than the elements that are wanted");
  size_t placed = 0;
  std::pair<const StoredSlice*, size_t> loaded{};  // the file block that is in the buffer
  ConstTensorView elements;
  for (const auto& [slice, file_block, part] : parts_to_read(stored, wanted)) {
    const TensorView to = destination.rows(part.to, part.count);
    placed += part.count;
    if (to.dtype() == stored.dtype &&
        part.count == elements_of_file_block(*slice, file_block, stored.dtype)) {
      read_file_block(tensor, *slice, file_block,
                      {static_cast<std::byte*>(to.data()), to.num_bytes()});
      continue;
    }
    if (loaded != std::pair(slice, file_block)) {
      elements = read_file_block(tensor, *slice, file_block, stored.dtype);
      loaded = {slice, file_block};
    }
    put(to, elements.rows(part.from, part.count));
  }
  check(placed == wanted.count, "CheckpointReader::read: elements beyond the tensor");
}

void CheckpointReader::put(TensorView destination, ConstTensorView source) {
  if (destination.dtype() == source.dtype()) {
    std::memcpy(destination.data(), source.data(), source.num_bytes());
  } else {
    cast(host_stream_, destination, source);
  }
}

void CheckpointReader::verify() {
  for (size_t rank = 0; rank < files_.size(); ++rank) {
    bool owns = false;
    for (const auto& [name, tensor] : index_.tensors) {
      for (const StoredSlice& slice : tensor.slices) {
        if (slice.rank != rank) continue;
        for (size_t c = 0; c < slice.checksums.size(); ++c) {
          read_file_block(name, slice, c, tensor.dtype);
        }
        owns = true;
      }
    }
    if (!owns) file(rank);
  }
}

}  // namespace ladder
