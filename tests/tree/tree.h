// The source files of the tree, as the tests that read them see them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

struct SourceFile {
  std::string path;  // from the root: "kernels/gelu.h"
  std::string text;
};

// The folder that holds WORKSPACE: the real one, not its picture among a test's runfiles.
std::filesystem::path source_root();

// Every text file of the floors, of tests/, notes/, tools/, zoo/ and .ci/, and of the root itself,
// by path. Throws Error when the root has no kernels/, so that no test passes on an empty tree.
std::vector<SourceFile> read_tree(const std::filesystem::path& root);

using Texts = std::map<std::string, std::string>;  // by path
Texts texts_of(const std::vector<SourceFile>& files);

// "kernels/cpu/gelu.cc" is under "kernels/"; "lessons/01_single_gpu/main.cc" is called "main.cc"
// and ends with ".cc".
bool is_under(std::string_view path, std::string_view folder);
std::string_view file_name(std::string_view path);
bool is_cpp(std::string_view path);

// The lines of a text, without their ends.
std::vector<std::string> lines_of(const std::string& text);

// One line per finding, for a test's message.
std::string report(const std::vector<std::string>& findings);

}  // namespace ladder
