#include "tools/programs/scratch.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/io/path.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace fs = std::filesystem;

Scratch::Scratch() {
  const char* const folder = std::getenv("TEST_TMPDIR");
  path_ = folder != nullptr ? make_temporary_folder("s", folder) : make_temporary_folder("ladder");
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string Scratch::write(const std::string& name, const std::string& content) const {
  const fs::path file = path_ / name;
  std::ofstream out(file, std::ios::binary);
  out << content;
  out.close();
  if (!out) fail(concat("cannot write ", file.string()));
  return file;
}

std::vector<std::string> Scratch::files() const {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    files.push_back(fs::relative(entry.path(), path_).generic_string());
  }
  std::ranges::sort(files);
  return files;
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) fail(concat("cannot read ", path.string()));
  return text.str();
}

}  // namespace ladder
