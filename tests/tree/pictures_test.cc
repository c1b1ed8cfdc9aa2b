// The pictures in notes/ are those that tools/course/pictures draws of this tree, and pages show
// them.
#include "tools/course/pictures/pictures.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/picture_check.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Files of the folder that are not as they would be drawn now: other, missing, or of no picture.
std::vector<std::string> stale_pictures(const fs::path& root, const std::vector<Picture>& pictures,
                                        const std::string& folder) {
  std::vector<std::string> findings;
  for (const Picture& picture : pictures) {
    if (read_text(root / picture.path) != picture.svg) findings.push_back(picture.path);
  }
  for (const auto& file : fs::directory_iterator(root / folder)) {
    const std::string path = folder + "/" + file.path().filename().string();
    if (!std::ranges::count(pictures, path, &Picture::path)) findings.push_back(path);
  }
  return findings;
}

// Images of a page, [alt text](file), that have no text or no file.
std::vector<std::string> broken_images(const fs::path& root, const SourceFile& page) {
  static const std::regex kImage(R"(!\[([^\]]*)\]\(([^)]*)\))");
  std::vector<std::string> findings;
  for (auto match = std::sregex_iterator(page.text.begin(), page.text.end(), kImage);
       match != std::sregex_iterator(); ++match) {
    const fs::path file = root / fs::path(page.path).parent_path() / (*match)[2].str();
    if ((*match)[1].length() == 0 || !fs::is_regular_file(file)) {
      findings.push_back(concat(page.path, ": ", (*match)[0].str()));
    }
  }
  return findings;
}

// All pictures. Some are simulations that take seconds, so they are drawn once.
const std::vector<Picture>& drawn_now() {
  static const std::vector<Picture> all = all_pictures(source_root());
  return all;
}

TEST_CASE("every picture is as it would be drawn now") {
  const fs::path root = source_root();
  INFO("drawn anew by: bazel run //tools/course/pictures");
  const auto stale = stale_pictures(root, drawn_now(), "notes/pictures");
  INFO(report(stale));
  CHECK(stale.empty());
}

// Those that a command has drawn of what it measured stand in the lessons' folders.
TEST_CASE(
    "no picture has text beyond its box, an arrow through a box, or text that is hard to read") {
  const fs::path root = source_root();
  std::vector<Picture> pictures = drawn_now();
  for (const auto& lesson : fs::directory_iterator(root / "lessons")) {
    for (const auto& file : fs::directory_iterator(lesson.path())) {
      if (file.path().extension() != ".svg") continue;
      pictures.push_back({fs::relative(file.path(), root).string(), read_text(file.path())});
    }
  }
  std::vector<std::string> findings;
  for (const Picture& picture : pictures) {
    for (const std::string& finding : testing::picture_findings(picture.svg)) {
      findings.push_back(concat(picture.path, ": ", finding));
    }
  }
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("a picture that is not drawn anew is found, and so is one that nobody draws") {
  const fs::path root = source_root();
  const std::string folder = "notes/pictures", path = folder + "/course_map.svg";
  std::vector<Picture> pictures = drawn_now();
  const auto map = std::ranges::find(pictures, path, &Picture::path);
  map->svg += " ";
  CHECK(stale_pictures(root, pictures, folder) == std::vector{path});
  pictures.erase(map);
  CHECK(stale_pictures(root, pictures, folder) == std::vector{path});
  pictures = drawn_now();
  pictures.push_back({folder + "/missing.svg", "<svg"});
  CHECK(stale_pictures(root, pictures, folder) == std::vector{folder + "/missing.svg"});
}

TEST_CASE("every picture is shown on a page, and every image has a file and a text instead of it") {
  const fs::path root = source_root();
  std::vector<std::string> findings;
  std::string pages;
  for (const SourceFile& file : read_tree(root)) {
    if (!file.path.ends_with(".md")) continue;
    std::ranges::move(broken_images(root, file), std::back_inserter(findings));
    pages += file.text;
  }
  for (const Picture& picture : drawn_now()) {
    const std::string name(file_name(picture.path));
    if (pages.find("pictures/" + name + ")") == std::string::npos) {
      findings.push_back(picture.path + " is on no page");
    }
  }
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("an image without a file or without a text is found") {
  const fs::path root = source_root();
  const auto broken = [&](const std::string& text) {
    return broken_images(root, {"lessons/02_ddp/README.md", text}).size();
  };
  CHECK(broken("![a map](../../notes/pictures/course_map.svg)") == 0);
  CHECK(broken("![](../../notes/pictures/course_map.svg)") == 1);
  CHECK(broken("![a map](../notes/pictures/course_map.svg)") == 1);
}

}  // namespace
}  // namespace ladder
