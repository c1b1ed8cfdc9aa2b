// Finds out what a path leads to.
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "kernels/runtime/check.h"

namespace ladder {

class Descriptor;

// Returns the path that `path` leads to when its last part is a link, or a link to a link, and so
// on. The file need not exist. Links among the folders before it are left as they are.
std::string without_links(const std::string& path);

// Returns `path` without slashes at its end. "c/" names what "c" names, but lstat would follow a
// link there.
std::string without_slashes(std::string path);

// Brings the names in an open folder to the disk. Returns whether it could; errno says why not. A
// file system that cannot do so for folders counts as done.
bool sync_folder(const Descriptor& folder);

// Brings the name of the file or folder at `path` to the disk (fsync of the folder that it is in):
// after a power cut it is there. Throws an Error if that fails.
void sync_name(const std::string& path);

// Returns "a folder", "a pipe", "a device", "a socket" or "a file".
std::string kind_of(const struct stat& status);

// Returns STDOUT_FILENO or STDERR_FILENO if the program's output goes to the file with this status,
// else nothing.
std::optional<int> standard_stream_of(const struct stat& status);

// A file that was good when it was opened could not be read or written on the way: the disk is
// full, or somebody has removed the folder. The message begins with the path.
class FileError : public Error {
 public:
  using Error::Error;
};

// Returns body(). If it throws a UserError or a FileError, which begin with a path, the flag that
// gave the path is put before it, as in "--data PATH: is empty", unless it is there.
template <class Body>
auto named_by(const char* flag, Body body) {
  const auto named = [flag](const std::exception& error) {
    const std::string text = error.what(), begin = concat(flag, " ");
    return text.starts_with(begin) ? text : begin + text;
  };
  try {
    return body();
  } catch (const UserError& error) {
    throw UserError(named(error));
  } catch (const FileError& error) {
    throw FileError(named(error));
  }
}

// A path and the flag that gives it, such as "--metrics". If the path is empty there is no file.
struct NamedFile {
  const char* flag;
  std::string path;
};

// Throws a UserError that names both flags if they give the same file, under whatever name.
void check_apart(const NamedFile& output, const NamedFile& other);

// Makes a folder in `parent`, which TMPDIR names by default, or else in /tmp. Returns its path, of
// which the last part begins with `name`. Throws UserError if that is not possible.
std::string make_temporary_folder(const std::string& name,
                                  const char* parent = std::getenv("TMPDIR"));

// Returns the absolute path of the file that `path` leads to, without links as far as it exists.
std::string whole_path(const std::string& path);

// Returns a text that is equal for two paths if they are the same file. If the file exists, the
// text has its device and number, so links of both kinds do not matter; otherwise it has the
// absolute path.
std::string identity_of(const std::string& path);

}  // namespace ladder
