// What a path leads to, and who named it.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "kernels/runtime/check.h"

namespace ladder {

// The path that `path` leads to when the links in its last part are followed, whether or not there
// is a file. Links among the folders before it are left as they are.
std::string without_links(const std::string& path);

// "a folder", "a pipe", "a device", "a socket" or "a file".
std::string kind_of(const struct stat& status);

// STDOUT_FILENO or STDERR_FILENO where the file of this status is what the program says goes to.
std::optional<int> standard_stream_of(const struct stat& status);

// body(), whose UserError begins with a path, under the name of the flag that gave the path:
// "--data PATH: is empty".
template <class Body>
auto named_by(const char* flag, Body body) {
  try {
    return body();
  } catch (const UserError& error) {
    throw UserError(concat(flag, " ", error.what()));
  }
}

// Equal texts are the same file: by device and number where there is one, so that links of both
// kinds are seen through; else by the path, made absolute.
std::string identity_of(const std::string& path);

}  // namespace ladder
