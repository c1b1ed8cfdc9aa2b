// The order of the folders in common/, and Bazel's dependencies that nothing includes.
#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/includes.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

// A folder of common/ may include those before it.
constexpr std::array kOrder = {"io",
                               "grid",
                               "comm",
                               "data",
                               "model",
                               "optimizer",
                               "cluster",
                               "schedule",
                               "virtual",
                               "checkpoint",
                               "train/trainer",
                               "train/flags",
                               "train/program",
                               "train/report",
                               "pipeline",
                               "train/run",
                               "train/bench"};

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// "model" of "common/model/block.h", "train/run" of "common/train/run/run.h"; empty elsewhere.
std::string room_of(const std::string& path) {
  if (!is_under(path, "common/")) return "";
  const std::string folder = folder_of(path).substr(std::string("common/").size());
  return is_under(folder, "train/") ? folder : folder.substr(0, folder.find('/'));
}

std::vector<std::string> order_violations(const std::vector<SourceFile>& files) {
  std::vector<std::string> findings;
  for (const auto& [path, text] : files) {
    const std::string room = room_of(path);
    if (room.empty() || !is_cpp(path)) continue;
    const auto place = std::ranges::find(kOrder, room);
    if (place == kOrder.end()) findings.push_back(concat(path, ": kOrder lacks its folder"));
    for (const auto& [included, quoted] : includes_of(text)) {
      const std::string other = room_of(included);
      if (other.empty() || other == room) continue;
      if (std::find(kOrder.begin(), place, other) != place) continue;
      findings.push_back(concat(path, ": ", included, " is of a later folder"));
    }
  }
  return findings;
}

// Returns whether each dependency in this BUILD file must have an include behind it. (Other folders
// depend on programs and data, too.)
bool is_checked(const std::string& path) {
  return file_name(path) == "BUILD" &&
         (is_under(path, "common/") || is_under(path, "tests/common/") ||
          (is_under(path, "lessons/") || is_under(path, "tests/lessons/")));
}

std::vector<std::string> stale_dependencies(const std::vector<SourceFile>& files) {
  std::map<std::string, std::set<std::string>> included;  // by folder: the folders it includes from
  for (const auto& [path, text] : files) {
    if (!is_cpp(path)) continue;
    for (const auto& include : includes_of(text)) {
      included[folder_of(path)].insert(folder_of(include.path));
    }
  }
  // A label with an extension is a file. ":revision" is linked and has no header.
  static const std::regex kLabel("\"//((?:common|lessons)/[a-z0-9_/]+)(:[a-z_]+)?\"");
  std::vector<std::string> findings;
  for (const auto& [path, text] : files) {
    const std::set<std::string>& folders = included[folder_of(path)];
    if (!is_checked(path) || folders.empty()) continue;
    for (std::sregex_iterator label(text.begin(), text.end(), kLabel), end; label != end; ++label) {
      const std::string folder = (*label)[1];
      const auto is_of = [&](const std::string& other) {
        return other == folder || is_under(other, folder + "/");
      };
      if ((*label)[2] != ":revision" && std::ranges::none_of(folders, is_of)) {
        findings.push_back(concat(path, ": nothing includes a header of ", folder));
      }
    }
  }
  return findings;
}

TEST_CASE("the folders of common/ have an order, and what BUILD files name is included") {
  const std::vector<SourceFile> files = read_tree(source_root());
  std::vector<std::string> findings = order_violations(files);
  std::ranges::move(stale_dependencies(files), std::back_inserter(findings));
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("the checker finds a folder above, a folder that is not declared, and a stale label") {
  const SourceFile above = {"common/io/a.h", "#include \"common/model/a.h\"\n"};
  const SourceFile below = {"common/model/b.h", "#include \"common/io/a.h\"\n"};
  CHECK(order_violations({above}).size() == 1);
  CHECK(order_violations({below}).empty());
  CHECK(order_violations({{"common/cellar/a.h", ""}}).size() == 1);
  const SourceFile build = {"common/model/BUILD", "deps = [\"//common/io\", \"//common/comm\"]\n"};
  CHECK(stale_dependencies({below, build}).size() == 1);
}

}  // namespace
}  // namespace ladder
