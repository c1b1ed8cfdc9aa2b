#include "common/checkpoint/folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/checkpoint/reader.h"
#include "common/io/file.h"
#include "common/io/json_file.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/io/text.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexFile = "checkpoint.json";
// Hidden, so that neither a person nor `step_*` finds them.
constexpr const char* kUnfinished = ".unfinished";
constexpr size_t kUnfinishedBytes = 32;  // of the name that PartialFolder makes of it
constexpr const char* kBegun = ".begun";
constexpr const char* kBegunFormat = "ladder run without a checkpoint";

// Returns whether there is a file that says that it is the index of a checkpoint. It says so at its
// beginning; nothing else is checked.
bool is_index(const std::string& path) {
  constexpr size_t kBegin = 4096;
  try {
    return InputFile(path).text(0, kBegin).find(kCheckpointFormat) != std::string::npos;
  } catch (const std::exception&) {
    return false;
  }
}

std::string name_of_step(int64_t step) {
  return format("step_%08lld", static_cast<long long>(step));
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

// Returns the path. Throws UserError unless checkpoints may be put there: in a folder, or in one
// that is yet to be made, which is no checkpoint itself and lies in none.
const std::string& free_folder(const std::string& path) {
  is_folder(path);
  const std::string around = checkpoint_around(path);
  if (!around.empty() || step_of_checkpoint(fs::path(path).filename())) {
    throw UserError(concat(path, ": is a checkpoint or lies in one; name the folder that has the ",
                           "checkpoints, or a new one"));
  }
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

std::optional<int64_t> step_of_checkpoint(const std::string& name) {
  constexpr std::string_view kBegin = "step_";
  if (!name.starts_with(kBegin)) return std::nullopt;
  int64_t step = 0;
  const auto parsed = std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), step);
  const bool is_step = parsed.ec == std::errc() && step > 0 && name_of_step(step) == name;
  return is_step ? std::optional(step) : std::nullopt;
}

std::string checkpoint_around(const std::string& path, const std::string& folder) {
  const std::string checkpoints = folder.empty() ? "" : identity_of(folder);
  for (fs::path at = whole_path(path); at != at.parent_path(); at = at.parent_path()) {
    if (is_index(at / kIndexFile)) return at;
    const bool is_name = !folder.empty() && step_of_checkpoint(at.filename()).has_value();
    if (is_name && identity_of(at.parent_path()) == checkpoints) return at;
  }
  return "";
}

std::vector<int64_t> checkpoints_in(const std::string& path) {
  const std::string folder = without_slashes(path);
  std::vector<int64_t> steps;
  if (!is_folder(folder)) return steps;
  for (const std::string& name : names_in(folder)) {
    const std::optional<int64_t> step = step_of_checkpoint(name);
    if (step && is_folder(concat(folder, "/", name))) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::vector<std::string> checkpoints_at(const std::string& path) {
  const std::string folder = without_slashes(path);
  if (!is_folder(folder)) throw UserError(concat(folder, ": there is no such folder"));
  std::error_code error;
  if (step_of_checkpoint(fs::path(folder).filename()) ||
      fs::exists(concat(folder, "/", kIndexFile), error)) {
    return {folder};
  }
  std::vector<std::string> paths;
  for (int64_t step : checkpoints_in(folder)) paths.push_back(checkpoint_path(folder, step));
  if (paths.empty()) throw UserError(concat(folder, ": has no checkpoint"));
  return paths;
}

CheckpointFolder::CheckpointFolder(const std::string& path)
    : path_(without_slashes(path)),
      folder_(free_folder(path_)),
      unfinished_(concat(path_, "/", kUnfinished)) {}

std::vector<uint64_t> CheckpointFolder::unfinished_name() const {
  const std::string name = fs::path(unfinished_.partial_path()).filename();
  check(name.size() == kUnfinishedBytes, "CheckpointFolder: the hidden name has another size");
  std::vector<uint64_t> numbers(kUnfinishedBytes / sizeof(uint64_t));
  std::memcpy(numbers.data(), name.data(), name.size());
  return numbers;
}

std::string unfinished_path(const std::string& folder, const std::vector<uint64_t>& name) {
  return concat(without_slashes(folder), "/",
                std::string_view(reinterpret_cast<const char*>(name.data()), kUnfinishedBytes));
}

std::string CheckpointFolder::left_over() const {
  std::string lines;
  for (const std::string& path : unfinished_.left_over()) {
    lines += concat("  left     cannot remove what a killed run left: ", one_line(path), "\n");
  }
  return lines;
}

std::string CheckpointFolder::begin(int64_t step) {
  const std::string partial = checkpoint_path(unfinished_.partial_path(), step);
  if (mkdir(partial.c_str(), 0777) != 0) fail_at(partial, "mkdir");
  return partial;
}

void CheckpointFolder::publish(int64_t step) {
  const std::string partial = checkpoint_path(unfinished_.partial_path(), step);
  const std::string target = checkpoint_path(path_, step);
  const Descriptor files(open(partial.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!files.is_open()) fail_at(partial, "open");
  if (!sync_folder(files)) fail_at(partial, "fsync");
  // Fails, as it must, if a checkpoint of this name is there: a folder with files stays.
  if (std::rename(partial.c_str(), target.c_str()) != 0) fail_at(target, "rename");
  folder_.sync();
  own_[step] = true;
  if (!begun().empty()) std::remove(concat(path_, "/", kBegun).c_str());
}

bool CheckpointFolder::is_own(int64_t step) {
  const auto [known, is_new] = own_.try_emplace(step, false);
  if (!is_new) return known->second;
  try {
    const CheckpointReader reader(checkpoint_path(path_, step));
    return known->second = true;
  } catch (const std::exception&) {
    return false;
  }
}

std::vector<std::string> CheckpointFolder::remove_all_but(size_t keep) {
  std::vector<std::string> stay;
  const auto say = [&](const std::string& path, const std::string& why) {
    if (!why.empty() && said_.insert(path).second) stay.push_back(concat(path, ": ", why));
  };
  try {
    std::vector<int64_t> steps;
    for (const std::string& name : folder_.names()) {
      const std::optional<int64_t> step = step_of_checkpoint(name);
      if (step && is_own(*step)) steps.push_back(*step);
    }
    std::ranges::sort(steps);
    for (size_t i = 0; i + keep < steps.size(); ++i) {
      say(checkpoint_path(path_, steps[i]), remove(name_of_step(steps[i])));
    }
  } catch (const std::exception& error) {
    say(path_, error.what());
  }
  return stay;
}

std::string CheckpointFolder::remove(const std::string& name) const {
  const fs::path path = fs::path(path_) / name,
                 removed = fs::path(unfinished_.partial_path()) / name;
  for (const std::string& file : names_in(path)) {
    if (file != kIndexFile && !rank_of_file(file)) {
      return concat(quoted_name(file), " in it is no part of a checkpoint");
    }
  }
  // Out of the folder first, so that no half of it is ever visible as a checkpoint.
  std::error_code error;
  fs::rename(path, removed, error);
  if (!error) fs::remove_all(removed, error);
  return error ? error.message() : "";
}

void CheckpointFolder::note_begun(const std::set<std::string>& paths) {
  if (paths.empty()) return;
  const std::string name = concat(path_, "/", kBegun);
  std::error_code error;
  if (fs::exists(name, error) && begun().empty()) {
    throw UserError(concat(name, ": is there, and no run has written it; move it away"));
  }
  PartialFile file(name);
  const nlohmann::json json = {{"format", kBegunFormat}, {"files", paths}};
  file.write(json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
  file.commit();
}

std::set<std::string> CheckpointFolder::begun() const {
  constexpr size_t kMostBytes = size_t{1} << 20;
  try {
    const nlohmann::json json = read_json_object(concat(path_, "/", kBegun), kMostBytes);
    if (json.value("format", "") == kBegunFormat)
      return json.value("files", std::set<std::string>());
  } catch (const std::exception&) {
    // No run has put it there.
  }
  return {};
}

}  // namespace ladder
