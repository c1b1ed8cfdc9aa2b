// Reads weights that lie in one safetensors file or are divided among several.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/io/safetensors.h"

namespace ladder {

// Returns every file that must be read for the tensors at `path`, which is one of
//   a safetensors file: then it is the only one;
//   a folder with model.safetensors: then it is that file;
//   a folder with model.safetensors.index.json, and no model.safetensors: then it is the index,
//     followed by the files that its "weight_map" names, sorted.
// These are the folders that Hugging Face's transformers writes. Throws a UserError that begins
// with a path if the folder has neither, or if the index is damaged: it must give each tensor a
// file by its plain name, which lies in the folder.
std::vector<std::string> files_of_tensors(const std::string& path);

// SafetensorsFiles has the tensors of all these files as if they were in one.
class SafetensorsFiles {
 public:
  // Opens the files. Throws a UserError that begins with a path if a file is missing, unreadable or
  // damaged, if two files have a tensor of the same name, or if a tensor is not in the file in
  // which the index says that it is.
  explicit SafetensorsFiles(const std::string& path);

  // Returns the tensors of all files.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  // Returns the tensor with this name, or nullptr if there is none.
  const SafetensorsEntry* find(std::string_view name) const;
  // Does what SafetensorsReader::read_part does. REQUIRES: an entry that find() has returned.
  void read_part(const SafetensorsEntry& entry, size_t first, TensorView destination) const;

 private:
  void add(const std::string& path);

  std::deque<SafetensorsReader> files_;
  std::vector<std::string> paths_;  // of the files
  std::vector<SafetensorsEntry> entries_;
  struct Location {
    size_t file;   // index into files_
    size_t entry;  // index into entries_
  };
  std::map<std::string, Location, std::less<>> locations_;  // by name
};

}  // namespace ladder
