// What a reader of lesson 01 meets: no ranks, and few headers.
#include <algorithm>
#include <map>
#include <set>

#include "tests/catch.h"
#include "tests/tree/includes.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

using Graph = std::map<std::string, std::set<std::string>>;

// Who includes which of our files, directly.
Graph includes_of_tree() {
  Graph graph;
  for (const SourceFile& file : read_tree(source_root())) {
    if (!is_cpp(file.path)) continue;
    for (const Include& include : includes_of(file.text)) {
      if (include.quoted) graph[file.path].insert(include.path);
    }
  }
  return graph;
}

// All that these files include, directly or not.
std::set<std::string> closure(const Graph& graph, const std::set<std::string>& files) {
  std::set<std::string> found;
  std::vector<std::string> left(files.begin(), files.end());
  while (!left.empty()) {
    const std::string file = left.back();
    left.pop_back();
    const auto node = graph.find(file);
    if (!found.insert(file).second || node == graph.end()) continue;
    left.insert(left.end(), node->second.begin(), node->second.end());
  }
  return found;
}

const std::set<std::string> kLesson = {"lessons/01_single_gpu/main.cc",
                                       "lessons/01_single_gpu/trainer.cc",
                                       "lessons/01_single_gpu/trainer.h"};

TEST_CASE("lesson 01 knows of no communication, not even by what it includes") {
  const Graph graph = includes_of_tree();
  const std::set<std::string> all = closure(graph, kLesson);
  CHECK(all.size() > 20);
  for (const std::string& file : all) {
    INFO(file);
    CHECK_FALSE(is_under(file, "common/comm/"));
  }
  // The same would be found in lesson 02.
  CHECK(std::ranges::any_of(closure(graph, {"lessons/02_ddp/trainer.h"}),
                            [](const std::string& f) { return is_under(f, "common/comm/"); }));
}

// step() calls what the lesson includes itself, and the members of the two classes that do the
// work: what their headers include is needed to read these members' declarations.
TEST_CASE("ten headers at most have to be open to follow step() of lesson 01") {
  const Graph graph = includes_of_tree();
  std::set<std::string> open;
  for (const std::string& file : kLesson) {
    if (file.ends_with("main.cc")) continue;
    open.insert(graph.at(file).begin(), graph.at(file).end());
  }
  for (const std::string work :
       {"common/train/trainer/model_runner.h", "common/train/trainer/model_state.h"}) {
    REQUIRE(open.contains(work));
    open.insert(graph.at(work).begin(), graph.at(work).end());
  }
  CAPTURE(open);
  CHECK(open.size() <= 10);
}

}  // namespace
}  // namespace ladder
