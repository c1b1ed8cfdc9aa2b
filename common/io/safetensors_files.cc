#include "common/io/safetensors_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "common/io/json_file.h"
#include "common/io/printable.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr size_t kMaxIndexBytes = size_t{64} << 20;

// The names of tensors, each with the name of the file that has it.
using WeightMap = std::map<std::string, std::string>;

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

WeightMap read_index(const std::string& path) {
  const nlohmann::json index = read_json_object(path, kMaxIndexBytes);
  const auto refuse = [&](const std::string& why) { throw UserError(concat(path, ": ", why)); };
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    refuse("\"weight_map\": expected an object that gives each tensor its file");
  }
  WeightMap files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !is_plain_name(file.get<std::string>())) {
      refuse(concat("tensor ", quoted_name(tensor),
                    ": expected the name of a file in this folder, ", "got ", shown(file)));
    }
    files[tensor] = file.get<std::string>();
  }
  return files;
}

// Returns the path of the index if `path` is a folder with one that counts, else an empty text.
std::string index_of(const std::string& path) {
  std::error_code error;
  const fs::path folder = path;
  if (!fs::is_directory(folder, error) || fs::exists(folder / kModel, error)) return "";
  if (fs::exists(folder / kIndex, error)) return folder / kIndex;
  const auto has = [&](const char* name) { return fs::exists(folder / name, error); };
  throw UserError(concat(path, ": the folder has neither ", kModel, " nor ", kIndex,
                         has("pytorch_model.bin") || has("pytorch_model.bin.index.json")
                             ? "; load its pytorch_model.bin in transformers and save it anew"
                         : has("adapter_config.json")
                             ? "; it has adapters, which are for --init-adapter"
                             : "; to start from one file in it, name the file"));
}

}  // namespace

std::vector<std::string> files_of_tensors(const std::string& path) {
  const std::string index = index_of(path);
  std::error_code error;
  if (index.empty()) {
    return {fs::is_directory(path, error) ? (fs::path(path) / kModel).string() : path};
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : read_index(index)) names.insert(file);
  std::vector<std::string> paths = {index};
  for (const std::string& name : names) paths.push_back(fs::path(path) / name);
  return paths;
}

SafetensorsFiles::SafetensorsFiles(const std::string& path) {
  const std::string index = index_of(path);
  for (const std::string& file : files_of_tensors(path)) {
    if (file != index) add(file);
  }
  if (index.empty()) return;
  for (const auto& [tensor, file] : read_index(index)) {
    const auto location = locations_.find(tensor);
    if (location != locations_.end() && fs::path(paths_[location->second.file]).filename() == file)
      continue;
    throw UserError(concat(index, ": tensor ", quoted_name(tensor), " is not in ", one_line(file)));
  }
}

void SafetensorsFiles::add(const std::string& path) {
  const SafetensorsReader& file = files_.emplace_back(path);
  paths_.push_back(path);
  for (const SafetensorsEntry& entry : file.entries()) {
    const auto [location, is_new] =
        locations_.insert({entry.name, {files_.size() - 1, entries_.size()}});
    if (!is_new) {
      throw UserError(concat(path, ": tensor ", quoted_name(entry.name), " is also in ",
                             paths_[location->second.file]));
    }
    entries_.push_back(entry);
  }
}

const SafetensorsEntry* SafetensorsFiles::find(std::string_view name) const {
  const auto location = locations_.find(name);
  return location == locations_.end() ? nullptr : &entries_[location->second.entry];
}

void SafetensorsFiles::read_part(const SafetensorsEntry& entry, size_t first,
                                 TensorView destination) const {
  const auto location = locations_.find(entry.name);
  check(location != locations_.end(), "SafetensorsFiles::read_part: an entry of other files");
  files_[location->second.file].read_part(entry, first, destination);
}

}  // namespace ladder
