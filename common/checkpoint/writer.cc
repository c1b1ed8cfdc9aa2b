#include "common/checkpoint/writer.h"

#include <unistd.h>
#include <xxhash.h>

#include <cstdio>

#include "common/checkpoint/json_path.h"
#include "common/io/path.h"
#include "common/io/safetensors.h"

namespace ladder {
namespace {

std::string part_path(const std::string& folder, size_t rank) {
  return concat(folder, "/", rank_file_name(rank), ".json");
}

void write_text(const std::string& path, const std::string& text) {
  PartialFile file(path);
  file.write(text);
  file.commit();
}

// Adds the slices of a rank to the index.
void add_part(CheckpointIndex& index, const std::string& path) {
  for (auto& [name, part] : parse_tensors(read_file(path), path)) {
    StoredTensor& tensor = index.tensors.try_emplace(name, part.dtype, part.shape).first->second;
    if (tensor.dtype != part.dtype || tensor.shape != part.shape) {
      fail(concat(path, ": tensor ", quoted_name(name),
                  " has another dtype or shape than on the ranks before"));
    }
    for (StoredSlice& slice : part.slices) tensor.slices.push_back(std::move(slice));
  }
}

// Says in the file itself where its elements belong, for readers of the file alone.
std::map<std::string, std::string> metadata_of(std::span<const NamedSlice> slices) {
  std::map<std::string, std::string> metadata;
  for (const auto& [name, slice] : slices) {
    const auto& [ranges, first, count] = elements_of(slice);
    metadata[name] =
        concat("shape ", to_string(slice.parameter->full_shape), ", runs ", ranges.first, " ",
               ranges.length, " ", ranges.stride, ", range ", first, " ", count);
  }
  return metadata;
}

}  // namespace

std::vector<NamedSlice> stored_slices(
    const std::function<std::vector<Slice>(std::string_view kind)>& slices_of) {
  std::vector<NamedSlice> slices;
  for (std::string_view kind : kStoredKinds) {
    for (const Slice& slice : slices_of(kind)) {
      slices.push_back({concat(kind, ".", slice.parameter->name), slice});
    }
  }
  return slices;
}

void write_rank_files(const std::string& folder, size_t rank, std::span<const NamedSlice> slices,
                      const ToHost& to_host) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const auto& [name, slice] : slices) {
    tensors.push_back({name, slice.view.dtype(), {slice.view.num_elements()}});
  }
  SafetensorsWriter file(concat(folder, "/", rank_file_name(rank)), tensors, metadata_of(slices));
  std::map<std::string, StoredTensor> stored;
  for (const auto& [name, slice] : slices) {
    const size_t n = slice.view.num_elements(),
                 file_block = file_block_elements(slice.view.dtype());
    StoredTensor& tensor = stored[name];
    tensor.dtype = slice.view.dtype();
    const Shape& shape = slice.parameter->full_shape;
    for (size_t d = 0; d < shape.num_dims(); ++d) tensor.shape.push_back(shape[d]);
    StoredSlice& own = tensor.slices.emplace_back(StoredSlice{rank, elements_of(slice), {}});
    for (size_t first = 0; first < n; first += file_block) {
      const TensorView view = slice.view.rows(first, std::min(file_block, n - first));
      const ConstTensorView host = to_host({name, {slice.parameter, slice.first + first, view}});
      own.checksums.push_back(XXH3_64bits(host.data(), host.num_bytes()));
      file.write_part(host);
    }
  }
  file.finish();
  write_text(part_path(folder, rank), to_json(stored).dump());
}

bool has_all_rank_files(const std::string& folder, size_t num_ranks) {
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    if (access(part_path(folder, rank).c_str(), F_OK) != 0) return false;
  }
  return true;
}

void write_index(const std::string& folder, CheckpointIndex index) {
  const size_t num_ranks = index.layout.world_size();
  const std::string path = concat(folder, "/checkpoint.json");
  std::string text;
  try {
    for (size_t rank = 0; rank < num_ranks; ++rank) add_part(index, part_path(folder, rank));
    text = to_text(index);
    parse_index(text, path);  // what nobody could read must not be published
  } catch (const UserError& error) {
    throw FileError(error.what());  // no user has written this
  }
  write_text(path, text);
  for (size_t rank = 0; rank < num_ranks; ++rank) std::remove(part_path(folder, rank).c_str());
}

}  // namespace ladder
