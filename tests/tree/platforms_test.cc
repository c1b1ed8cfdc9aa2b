// The image of tools/platforms and the editor's container that is made from it: what they name is
// in the tree. Nothing here needs Docker. And on a new machine a tool finds the packages it needs.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/catch.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {
namespace fs = std::filesystem;

// The words of each line of a Dockerfile, without comments.
std::vector<std::vector<std::string>> instructions_of(const fs::path& dockerfile) {
  std::ifstream file(dockerfile);
  std::vector<std::vector<std::string>> instructions;
  for (std::string line, word; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    instructions.emplace_back();
    for (std::istringstream words(line); words >> word;) instructions.back().push_back(word);
  }
  return instructions;
}

TEST_CASE("the editor's container is a stage of the image, with room for shared memory") {
  const fs::path folder = source_root() / ".devcontainer";
  std::ifstream file(folder / "devcontainer.json");
  const nlohmann::json container = nlohmann::json::parse(file);
  const nlohmann::json& build = container.at("build");
  CHECK(fs::equivalent(folder / build.at("context").get<std::string>(), source_root()));
  CHECK(container.at("runArgs").at(0).get<std::string>().starts_with("--shm-size="));

  std::set<std::string> stages, users;
  for (const auto& words : instructions_of(folder / build.at("dockerfile").get<std::string>())) {
    CAPTURE(words);
    if (words[0] == "FROM" && words.size() == 4) stages.insert(words[3]);  // FROM x AS stage
    if (words[0] == "USER") users.insert(words[1]);
    if (words[0] != "COPY") continue;
    for (size_t i = 1; i + 1 < words.size(); ++i) {
      if (!words[i].starts_with("--")) CHECK(fs::exists(source_root() / words[i]));
    }
  }
  CHECK(stages.contains(build.at("target")));
  CHECK(users.contains(container.at("remoteUser")));
}

TEST_CASE("a tool that builds tests or benchmarks installs the packages that these need") {
  static const std::regex kComments(R"((^|\n) *#[^\n]*)"), kSetup("tools/setup\"?"),
      kForTests("tools/setup\"? --(test|developer)"),
      kBuildsTests(R"(//tests|//lessons/\.\.\.|//\.\.\.|:benchmark|_cases")");
  std::vector<std::string> findings;
  size_t num_tools = 0;
  for (const SourceFile& file : read_tree(source_root())) {
    if (!is_under(file.path, "tools/") || file_name(file.path).find('.') != std::string::npos) {
      continue;  // tools have no ending
    }
    const std::string code = std::regex_replace(file.text, kComments, "");
    if (!std::regex_search(code, kSetup) || !std::regex_search(code, kBuildsTests)) continue;
    ++num_tools;
    if (!std::regex_search(code, kForTests)) findings.push_back(file.path);
  }
  INFO(report(findings));
  CHECK(findings.empty());
  CHECK(num_tools > 3);
}

}  // namespace
}  // namespace ladder
