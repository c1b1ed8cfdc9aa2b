// Finds the files that --data names.
#pragma once

#include <string>
#include <vector>

#include "kernels/runtime/check.h"

namespace ladder {

// Throws the UserError "--data PATH: PARTS". `path` is a file, or the whole text given to the flag.
template <class... Parts>
[[noreturn]] void refuse_data(const std::string& path, const Parts&... parts) {
  throw UserError(concat("--data ", path.empty() ? "\"\"" : path, ": ", parts...));
}

// Returns whether a path ends in .bin, in small letters or capitals.
bool is_bin(const std::string& path);

// Returns the files that `names` stands for, in the order in which they are read. `names` is one of
//   a path that exists: a file, or a folder, which stands for its .bin files, sorted by name;
//   a pattern with *, ? or [...], as in "shards/*_train_*.bin" [glob(7)], which stands for what it
//     matches, sorted by name;
//   several of them with commas between them, one after the other.
// Names are sorted by their bytes, so that the order is the same everywhere. Throws a UserError
// that names --data if a path does not exist or cannot be read, if a folder has no .bin file, if a
// pattern matches nothing, or if one file comes twice.
std::vector<std::string> data_files(const std::string& names);

}  // namespace ladder
