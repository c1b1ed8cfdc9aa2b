#include "common/train/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/io/file.h"
#include "kernels/runtime/check.h"

namespace ladder {

namespace fs = std::filesystem;

OutputFolder::OutputFolder(const char* flag, const std::string& path) : flag_(flag), path_(path) {
  std::error_code error;
  for (fs::path at = path; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
    made_.push_back(at);
  }
  fs::create_directories(path, error);
  if (fs::is_symlink(path) && !fs::exists(path)) refuse("it is a link that leads nowhere");
  if (error || !fs::is_directory(path)) {
    refuse(concat("cannot make this folder: ", error ? error.message() : "it is a file"));
  }
}

OutputFolder::OutputFolder(const char* flag, const std::string& path, const std::string& file)
    : OutputFolder(flag, path) {
  // From here on the destructor runs, and removes the folders, even if this throws.
  folder_ = Descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.is_open()) refuse(concat("cannot be read: ", std::strerror(errno)));
  if (flock(folder_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    refuse("another run is writing there; name a folder for each");
  }
  try {
    const PartialFile probe(path + "/" + file);  // never committed
  } catch (const UserError& why) {
    refuse(why.what());
  }
}

OutputFolder::~OutputFolder() {
  for (const std::string& folder : made_) rmdir(folder.c_str());
}

std::vector<std::string> OutputFolder::names() const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename());
  }
  if (error) refuse(concat("cannot be read: ", error.message()));
  std::ranges::sort(names);
  return names;
}

void OutputFolder::refuse(const std::string& why) const {
  throw UserError(concat(flag_, " ", path_, ": ", why));
}

}  // namespace ladder
