#include "common/io/path.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/io/descriptor.h"

namespace ladder {

namespace fs = std::filesystem;

std::string without_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows; a longer chain fails at opening
  fs::path at = path;
  std::error_code error;
  for (int link = 0; link < kMostLinks; ++link) {
    const fs::path target = fs::read_symlink(at, error);
    if (error) break;  // not a link
    at = at.parent_path() / target;
  }
  return at;
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

bool sync_folder(const Descriptor& folder) {
  return fsync(folder.number()) == 0 || errno == EINVAL;
}

void sync_name(const std::string& path) {
  const fs::path parent = fs::path(without_slashes(path)).parent_path();
  const Descriptor folder(
      open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A folder that may not be read cannot be synced.
  if (!folder.is_open() || sync_folder(folder)) return;
  throw FileError(concat(path, ": fsync of its folder failed: ", std::strerror(errno)));
}

std::string kind_of(const struct stat& status) {
  switch (status.st_mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a pipe";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a file";
  }
}

std::optional<int> standard_stream_of(const struct stat& status) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat other;
    if (fstat(stream, &other) == 0 && other.st_dev == status.st_dev &&
        other.st_ino == status.st_ino) {
      return stream;
    }
  }
  return std::nullopt;
}

std::string whole_path(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::absolute(without_links(without_slashes(path)), error);
  if (error) return path;  // the present folder is gone
  const fs::path whole = fs::weakly_canonical(target, error);
  return error ? target.lexically_normal() : whole;
}

std::string identity_of(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0) return concat(status.st_dev, ":", status.st_ino);
  return whole_path(path);
}

void check_apart(const NamedFile& output, const NamedFile& other) {
  if (output.path.empty() || other.path.empty()) return;
  if (identity_of(output.path) != identity_of(other.path)) return;
  throw UserError(concat(output.flag, " ", output.path, " and ", other.flag, " ", other.path,
                         " are the same file; give the output a name of its own"));
}

std::string make_temporary_folder(const std::string& name, const char* parent) {
  const bool is_named = parent != nullptr && *parent != '\0';
  std::string path = concat(is_named ? parent : "/tmp", "/", name, ".XXXXXX");
  if (mkdtemp(path.data()) != nullptr) return path;
  throw UserError(concat(is_named ? concat("TMPDIR ", parent) : "/tmp",
                         ": no folder can be made in it: ", std::strerror(errno)));
}

}  // namespace ladder
