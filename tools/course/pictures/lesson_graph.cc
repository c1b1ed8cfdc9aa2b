#include "tools/course/pictures/lesson_graph.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "common/io/file.h"
#include "kernels/runtime/check.h"

namespace ladder {

std::optional<std::vector<std::string>> parents_in(const std::string& build_file) {
  static const std::regex kCall(R"re(\nlesson\(([^)]*)\))re");
  static const std::regex kParents(R"re(\bparents\s*=\s*\[([^\]]*)\])re");
  static const std::regex kName(R"re("([^"]+)")re");
  std::smatch call, found;
  if (!std::regex_search(build_file, call, kCall)) return std::nullopt;
  const std::string arguments = call[1];
  if (!std::regex_search(arguments, found, kParents)) return std::vector<std::string>();
  const std::string list = found[1];
  std::vector<std::string> parents;
  for (auto name = std::sregex_iterator(list.begin(), list.end(), kName);
       name != std::sregex_iterator(); ++name) {
    parents.push_back((*name)[1]);
  }
  return parents;
}

std::vector<std::string> read_core_path(const std::string& root) {
  static const std::regex kRow(R"re(\n\| \[[^\]]*\]\(lessons/([^/]+)/README\.md\) \|)re");
  const std::string page = read_file(root + "/README.md");
  std::vector<std::string> path;
  for (auto row = std::sregex_iterator(page.begin(), page.end(), kRow);
       row != std::sregex_iterator(); ++row) {
    path.push_back((*row)[1]);
  }
  if (path.empty()) fail("README.md has no table of the core path");
  return path;
}

LessonGraph read_lessons(const std::string& root) {
  LessonGraph graph;
  for (const auto& folder : std::filesystem::directory_iterator(root + "/lessons")) {
    std::ifstream file(folder.path() / "BUILD");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (auto parents = parents_in(text)) graph[folder.path().filename()] = std::move(*parents);
  }
  if (graph.empty()) fail("no lessons below " + root);
  return graph;
}

}  // namespace ladder
