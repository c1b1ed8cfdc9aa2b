#include "tests/tree/tree.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "kernels/runtime/check.h"

namespace ladder {
namespace fs = std::filesystem;
namespace {

// Anything else in the root is the user's: dumps, data, Bazel's links.
constexpr std::array kFolders = {"kernels", "common", "lessons", "tests",
                                 "notes",   "tools",  "zoo",     ".ci"};

bool is_text(const fs::path& path) {
  static constexpr std::array kExtensions = {"",     ".h",      ".cc",   ".cu",   ".bzl",
                                             ".md",  ".py",     ".yaml", ".json", ".sh",
                                             ".txt", ".sbatch", ".toml"};
  return std::ranges::count(kExtensions, path.extension().string()) > 0;
}

SourceFile read_file(const fs::path& root, const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) fail(concat("cannot read ", file.string()));
  return {fs::relative(file, root).generic_string(), text.str()};
}

}  // namespace

fs::path source_root() {
  const char* const runfiles = std::getenv("TEST_SRCDIR");
  const char* const workspace = std::getenv("TEST_WORKSPACE");
  check(runfiles != nullptr && workspace != nullptr, "run this through `bazel test`");
  return fs::canonical(fs::path(runfiles) / workspace / "WORKSPACE").parent_path();
}

std::vector<SourceFile> read_tree(const fs::path& root) {
  if (!fs::is_directory(root / "kernels")) fail(concat(root.string(), " is not the source tree"));
  std::vector<SourceFile> files;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename();
    const bool is_made = name == ".git" ||  // a file where this is a worktree
                         name == "compile_commands.json";
    if (entry.is_regular_file() && !entry.is_symlink() && !is_made && is_text(entry.path())) {
      files.push_back(read_file(root, entry.path()));
    }
  }
  for (const char* const folder : kFolders) {
    if (!fs::is_directory(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file() && is_text(entry.path())) {
        files.push_back(read_file(root, entry.path()));
      }
    }
  }
  std::ranges::sort(files, {}, &SourceFile::path);
  return files;
}

Texts texts_of(const std::vector<SourceFile>& files) {
  Texts texts;
  for (const SourceFile& file : files) texts[file.path] = file.text;
  return texts;
}

bool is_under(std::string_view path, std::string_view folder) { return path.starts_with(folder); }

std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

bool is_cpp(std::string_view path) {
  return path.ends_with(".h") || path.ends_with(".cc") || path.ends_with(".cu");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string report(const std::vector<std::string>& findings) {
  std::string text;
  for (const std::string& finding : findings) text += "\n  " + finding;
  return text;
}

}  // namespace ladder
