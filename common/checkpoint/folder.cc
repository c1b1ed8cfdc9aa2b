#include "common/checkpoint/folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/io/path.h"
#include "common/io/printable.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

// Hidden, so that neither a person nor `step_*` finds them.
constexpr std::string_view kPartial = ".partial_", kRemoved = ".removed_";

std::string name_of_step(int64_t step) {
  char text[32];
  std::snprintf(text, sizeof text, "step_%08lld", static_cast<long long>(step));
  return text;
}

// Returns the step if `name` is the name of a checkpoint.
std::optional<int64_t> step_of(const std::string& name) {
  constexpr std::string_view kBegin = "step_";
  if (!name.starts_with(kBegin)) return std::nullopt;
  int64_t step = 0;
  const auto parsed = std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), step);
  const bool is_step = parsed.ec == std::errc() && step > 0 && name_of_step(step) == name;
  return is_step ? std::optional(step) : std::nullopt;
}

// Returns whether a killed run has left this: a checkpoint that was being written or removed.
bool is_leftover(const std::string& name) {
  for (std::string_view mark : {kPartial, kRemoved}) {
    if (name.starts_with(mark) && step_of(name.substr(mark.size()))) return true;
  }
  return false;
}

[[noreturn]] void fail_at(const std::string& path, const char* what) {
  throw FileError(concat(path, ": ", what, " failed: ", std::strerror(errno)));
}

// Throws UserError if there is something at the path that is no folder. Returns whether there is a
// folder.
bool is_folder(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return false;
    throw UserError(concat(path, ": cannot be read: ", std::strerror(errno)));
  }
  if (S_ISLNK(status.st_mode)) {
    throw UserError(concat(path, ": is a link; name the folder itself"));
  }
  if (!S_ISDIR(status.st_mode)) {
    throw UserError(concat(path, ": is ", kind_of(status), ", expected a folder"));
  }
  return true;
}

// Returns the path. Throws UserError if there is something else than a folder.
const std::string& folder_or_nothing(const std::string& path) {
  is_folder(path);
  return path;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  try {
    for (const auto& entry : fs::directory_iterator(folder)) {
      names.push_back(entry.path().filename());
    }
  } catch (const fs::filesystem_error& error) {
    throw UserError(concat(folder, ": cannot be read: ", error.code().message()));
  }
  return names;
}

}  // namespace

std::string checkpoint_path(const std::string& folder, int64_t step) {
  return concat(without_slashes(folder), "/", name_of_step(step));
}

std::string partial_checkpoint_path(const std::string& folder, int64_t step) {
  return concat(without_slashes(folder), "/", kPartial, name_of_step(step));
}

std::vector<int64_t> checkpoints_in(const std::string& path) {
  const std::string folder = without_slashes(path);
  std::vector<int64_t> steps;
  if (!is_folder(folder)) return steps;
  for (const std::string& name : names_in(folder)) {
    const std::optional<int64_t> step = step_of(name);
    if (step && is_folder(concat(folder, "/", name))) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::vector<std::string> checkpoints_at(const std::string& path) {
  const std::string folder = without_slashes(path);
  if (!is_folder(folder)) throw UserError(concat(folder, ": there is no such folder"));
  if (step_of(fs::path(folder).filename()) || fs::exists(folder + "/checkpoint.json")) {
    return {folder};
  }
  std::vector<std::string> paths;
  for (int64_t step : checkpoints_in(folder)) paths.push_back(checkpoint_path(folder, step));
  if (paths.empty()) throw UserError(concat(folder, ": has no checkpoint"));
  return paths;
}

CheckpointFolder::CheckpointFolder(const std::string& path)
    : path_(without_slashes(path)), folder_(folder_or_nothing(path_)) {
  for (const std::string& name : folder_.names()) {
    if (!is_leftover(name)) continue;
    std::error_code error;
    fs::remove_all(concat(path_, "/", name), error);
    if (error) {
      folder_.refuse(concat("cannot be written: what a killed run has left, ", name,
                            ", stays: ", error.message()));
    }
  }
}

CheckpointFolder::~CheckpointFolder() {
  std::error_code ignored;
  if (!unpublished_.empty()) fs::remove_all(unpublished_, ignored);
}

void CheckpointFolder::begin(int64_t step) {
  const std::string partial = partial_checkpoint_path(path_, step);
  if (mkdir(partial.c_str(), 0777) != 0) fail_at(partial, "mkdir");
  unpublished_ = partial;
}

void CheckpointFolder::publish(int64_t step) {
  const std::string partial = partial_checkpoint_path(path_, step);
  const std::string target = checkpoint_path(path_, step);
  const Descriptor files(open(partial.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!files.is_open()) fail_at(partial, "open");
  if (fsync(files.number()) != 0) fail_at(partial, "fsync");
  // Fails, as it must, if a checkpoint of this name is there: a folder with files stays.
  if (std::rename(partial.c_str(), target.c_str()) != 0) fail_at(target, "rename");
  unpublished_.clear();
  folder_.sync();
}

void CheckpointFolder::remove_all_but(size_t keep) {
  std::vector<int64_t> steps = checkpoints_in(path_);
  for (size_t i = 0; i + keep < steps.size(); ++i) remove(name_of_step(steps[i]));
}

void CheckpointFolder::remove(const std::string& name) {
  // Under another name first, so that no half of it is ever visible as a checkpoint.
  const std::string removed = concat(path_, "/", kRemoved, name);
  if (std::rename(concat(path_, "/", name).c_str(), removed.c_str()) != 0) {
    fail_at(concat(path_, "/", name), "rename");
  }
  std::error_code error;
  fs::remove_all(removed, error);
  if (error) throw FileError(concat(removed, ": cannot be removed: ", error.message()));
}

}  // namespace ladder
