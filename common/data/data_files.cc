#include "common/data/data_files.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>

#include "common/io/path.h"

namespace ladder {
namespace {

// Returns what stat says of `path`. Links are followed.
struct stat stat_of(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0) return status;
  if (errno == ENOENT) refuse_data(path, "there is no such file or folder");
  refuse_data(path, "cannot be read: ", std::strerror(errno));
}

bool exists(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0;
}

std::vector<std::string> shards_in(const std::string& folder) {
  std::vector<std::string> paths;
  try {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (is_bin(entry.path().string())) paths.push_back(entry.path().string());
    }
  } catch (const std::filesystem::filesystem_error& error) {
    refuse_data(folder, "cannot be read: ", error.code().message());
  }
  if (paths.empty()) {
    refuse_data(folder, "the folder holds no .bin file (token shards); a text is a file");
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found = {};
  // With GLOB_ERR a folder that cannot be read is an error, and its files are not just left out.
  const int status = glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  const int error = errno;
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (status == GLOB_ABORTED) refuse_data(pattern, "cannot be read: ", std::strerror(error));
  if (status != 0 || paths.empty()) refuse_data(pattern, "no file matches this pattern");
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Returns the files of one name, which has no comma that separates names.
std::vector<std::string> files_of(const std::string& name) {
  if (!exists(name) && name.find_first_of("*?[") != std::string::npos) return matches_of(name);
  return S_ISDIR(stat_of(name).st_mode) ? shards_in(name) : std::vector{name};
}

}  // namespace

bool is_bin(const std::string& path) {
  constexpr std::string_view kEnd = ".bin";
  return path.size() >= kEnd.size() &&
         std::equal(kEnd.begin(), kEnd.end(), path.end() - kEnd.size(),
                    [](char end, unsigned char c) { return end == std::tolower(c); });
}

std::vector<std::string> data_files(const std::string& names) {
  std::vector<std::string> paths;
  if (exists(names) || names.find(',') == std::string::npos) {
    paths = files_of(names);
  } else {
    std::istringstream parts(names + ",");
    for (std::string part; std::getline(parts, part, ',');) {
      if (part.empty()) refuse_data(names, "a name between the commas is empty");
      for (const std::string& path : files_of(part)) paths.push_back(path);
    }
  }
  std::set<std::string> seen;
  for (const std::string& path : paths) {
    if (!seen.insert(identity_of(path)).second) refuse_data(names, path, " is there twice");
  }
  return paths;
}

}  // namespace ladder
