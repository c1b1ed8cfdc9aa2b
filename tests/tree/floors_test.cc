// The floors of the house: who may include whom.
#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/includes.h"
#include "tests/tree/tree.h"
#include "tools/course/pictures/lesson_graph.h"

namespace ladder {
namespace {

// "07_tensor_parallel" of "lessons/07_tensor_parallel/main.cc".
std::string lesson_of(const std::string& path) {
  const size_t begin = std::string("lessons/").size();
  return path.substr(begin, path.find('/', begin) - begin);
}

// Which lessons each lesson adds its idea to.
using Parents = LessonGraph;

Parents declared_parents(const std::vector<SourceFile>& files) {
  Parents parents;
  for (const auto& [path, text] : files) {
    if (!is_under(path, "lessons/") || file_name(path) != "BUILD") continue;
    if (auto found = parents_in(text)) parents[lesson_of(path)] = std::move(*found);
  }
  return parents;
}

// Is `other` the lesson itself, one of its parents, or one of theirs? Ends also where lessons are
// their own ancestors, because a trail never comes back to a lesson that is on it.
bool descends_from(const Parents& parents, const std::string& lesson, const std::string& other,
                   std::set<std::string> trail = {}) {
  if (lesson == other) return true;
  const auto found = parents.find(lesson);
  if (found == parents.end() || !trail.insert(lesson).second) return false;
  return std::ranges::any_of(found->second, [&](const std::string& parent) {
    return descends_from(parents, parent, other, trail);
  });
}

// May `file` include `included`, both paths from the root?
bool may_include(const Parents& parents, const std::string& file, const std::string& included) {
  if (is_under(file, "tests/") || is_under(file, "tools/")) return true;
  if (is_under(included, "kernels/")) return true;
  if (is_under(included, "common/")) return !is_under(file, "kernels/");
  if (!is_under(included, "lessons/") || !is_under(file, "lessons/")) return false;
  // Benchmarks compare a lesson with any other one; nothing is built on them.
  if (file_name(file) == "benchmark.cc") return true;
  return descends_from(parents, lesson_of(file), lesson_of(included));
}

// Where a system header may be used outside tests/ and tools/; empty = anywhere.
std::string home_of_system_header(const std::string& header) {
  static const std::regex kKernels(R"(cuda.*|cublas.*|omp\.h|dnnl.*|oneapi/dnnl/.*)");
  static const std::regex kComm(R"(mpi\.h|nccl\.h)");
  if (std::regex_match(header, kKernels)) return "kernels/";
  if (std::regex_match(header, kComm)) return "common/comm/";
  return "";
}

// What is wrong with the includes of one file. `exists` tells which paths from the root exist.
std::vector<std::string> floor_violations(const SourceFile& file,
                                          const std::set<std::string>& exists,
                                          const Parents& parents) {
  static const std::regex kOurs("(kernels|common|lessons|tests|tools)/.*");
  std::vector<std::string> findings;
  for (const auto& [path, quoted] : includes_of(file.text)) {
    const std::string home = home_of_system_header(path);
    const bool beside = is_under(file.path, "tests/") || is_under(file.path, "tools/");
    if (!home.empty() && !beside && !is_under(file.path, home)) {
      findings.push_back(concat(file.path, ": <", path, "> belongs to ", home));
    } else if (!quoted && std::regex_match(path, kOurs)) {
      findings.push_back(concat(file.path, ": <", path, "> is ours, write \"", path, "\""));
    } else if (quoted && !exists.contains(path)) {
      findings.push_back(concat(file.path, ": \"", path, "\" is no file, seen from the root"));
    } else if (quoted && !may_include(parents, file.path, path)) {
      findings.push_back(
          concat(file.path, ": may not include ", path, ", it is a floor above or no ancestor"));
    }
  }
  return findings;
}

using Graph = std::map<std::string, std::vector<std::string>>;

// Extends `trail` depth first; returns the first cycle as "a -> b -> a", or "".
std::string cycle_from(const Graph& graph, const std::string& file, std::vector<std::string>& trail,
                       std::set<std::string>& finished) {
  const auto seen = std::ranges::find(trail, file);
  if (seen != trail.end()) {
    std::string cycle;
    for (auto at = seen; at != trail.end(); ++at) cycle += *at + " -> ";
    return cycle + file;
  }
  const auto node = graph.find(file);
  if (node == graph.end() || finished.contains(file)) return "";
  trail.push_back(file);
  for (const std::string& next : node->second) {
    const std::string cycle = cycle_from(graph, next, trail, finished);
    if (!cycle.empty()) return cycle;
  }
  trail.pop_back();
  finished.insert(file);
  return "";
}

std::string first_cycle(const std::vector<SourceFile>& files) {
  Graph graph;
  for (const SourceFile& file : files) {
    if (!is_cpp(file.path)) continue;
    for (const auto& [path, quoted] : includes_of(file.text)) {
      if (quoted) graph[file.path].push_back(path);
    }
  }
  std::set<std::string> finished;
  for (const auto& [file, includes] : graph) {
    std::vector<std::string> trail;
    const std::string cycle = cycle_from(graph, file, trail, finished);
    if (!cycle.empty()) return cycle;
  }
  return "";
}

std::vector<std::string> all_floor_violations(const std::vector<SourceFile>& files) {
  std::set<std::string> exists;
  for (const SourceFile& file : files) exists.insert(file.path);
  const Parents parents = declared_parents(files);
  std::vector<std::string> findings;
  for (const SourceFile& file : files) {
    if (!is_cpp(file.path)) continue;
    std::ranges::move(floor_violations(file, exists, parents), std::back_inserter(findings));
  }
  return findings;
}

TEST_CASE("every include keeps to the floors") {
  const std::vector<SourceFile> files = read_tree(source_root());
  REQUIRE(std::ranges::count_if(files, [](const auto& file) { return is_cpp(file.path); }) > 10);
  const std::vector<std::string> findings = all_floor_violations(files);
  INFO(report(findings));
  CHECK(findings.empty());
  CHECK(first_cycle(files) == "");
}

constexpr const char* kTwoParents =
    "\nlesson(\n    parents = [\n        \"02_y\",\n        \"03_z\",\n    ],\n)\n";

// Puts `line` into an otherwise fine tree, in the file `path`.
size_t violations_of(const std::string& path, const std::string& line) {
  return all_floor_violations(
             {{"kernels/a.h", ""},
              {"common/model/a.h", ""},
              {"common/comm/a.h", ""},
              {"lessons/01_x/a.h", ""},
              {"lessons/02_y/a.h", ""},
              {"lessons/03_z/a.h", ""},
              {"lessons/04_w/a.h", ""},
              {"lessons/01_x/BUILD", "\nlesson()\n"},
              {"lessons/02_y/BUILD", "\nlesson(parents = [\"01_x\"])\n"},
              {"lessons/03_z/BUILD", "\nlesson(parents = [\"01_x\"], supervised = True)\n"},
              {"lessons/04_w/BUILD", kTwoParents},
              {"tests/a.h", ""},
              {"tools/a.h", ""},
              {path, "#pragma once\n" + line + "\n"}})
      .size();
}

TEST_CASE("the floors' checker lets good includes pass") {
  const auto [path, line] = GENERATE(table<std::string, std::string>({
      {"kernels/b.h", "#include \"kernels/a.h\"  // why"},
      {"kernels/cpu/b.cc", "#include <dnnl.hpp>"},
      {"kernels/cpu/b.cc", "#include <omp.h>"},
      {"kernels/cuda/b.cu", "#include <cuda_runtime.h>"},
      {"common/b.h", "#include \"common/model/a.h\""},
      {"common/b.h", "#include <vector>"},
      {"common/comm/b.cc", "#include <mpi.h>"},
      {"lessons/02_y/b.h", "#include \"lessons/01_x/a.h\""},
      {"lessons/02_y/b.h", "#include \"lessons/02_y/a.h\""},
      {"lessons/03_z/b.h", "#include \"lessons/01_x/a.h\""},
      {"lessons/04_w/b.h", "#include \"lessons/03_z/a.h\""},
      {"lessons/04_w/b.h", "#include \"lessons/01_x/a.h\""},
      {"lessons/02_y/benchmark.cc", "#include \"lessons/03_z/a.h\""},
      {"lessons/01_x/b.h", "// #include \"tests/a.h\""},
      {"tests/b.cc", "#include \"tools/a.h\""},
      {"tools/b.cc", "#include \"lessons/02_y/a.h\""},
      {"tests/b.cc", "#include <mpi.h>"},
  }));
  CAPTURE(path, line);
  CHECK(violations_of(path, line) == 0);
}

TEST_CASE("the floors' checker finds bad includes") {
  const auto [path, line] = GENERATE(table<std::string, std::string>({
      {"kernels/b.h", "#include \"common/model/a.h\""},
      {"kernels/b.cu", "  #  include \"lessons/01_x/a.h\""},
      {"common/b.h", "#include \"lessons/01_x/a.h\""},
      {"common/b.cc", "#include \"tests/a.h\""},
      {"common/b.cc", "#include \"tools/a.h\""},
      {"lessons/01_x/b.h", "#include \"lessons/02_y/a.h\""},
      {"lessons/03_z/b.h", "#include \"lessons/02_y/a.h\""},
      {"lessons/02_y/benchmark.h", "#include \"lessons/03_z/a.h\""},
      {"lessons/01_x/b.h", "#include \"tests/a.h\""},
      {"lessons/01_x/b.h", "#include \"tools/a.h\""},
      {"lessons/01_x/b.h", "#include \"a.h\""},
      {"lessons/01_x/b.h", "#include \"../02_y/a.h\""},
      {"lessons/01_x/b.h", "#include <kernels/a.h>"},
      {"lessons/01_x/b.cc", "#include <cuda_runtime.h>"},
      {"common/b.cc", "#include <cublas_v2.h>"},
      {"common/b.cc", "#include <omp.h>"},
      {"common/b.cc", "#include <oneapi/dnnl/dnnl.hpp>"},
      {"common/train/b.cc", "#include <mpi.h>"},
      {"kernels/b.cc", "#include <nccl.h>"},
      {"tests/b.cc", "#include \"kernels/missing.h\""},
  }));
  CAPTURE(path, line);
  CHECK(violations_of(path, line) == 1);
}

TEST_CASE("every lesson declares parents that exist, and none descends from itself") {
  const Parents parents = declared_parents(read_tree(source_root()));
  CHECK(parents.size() >= 10);
  CHECK(parents.at("01_single_gpu").empty());
  for (const auto& [lesson, names] : parents) {
    CAPTURE(lesson);
    if (lesson != "00_collectives" && lesson != "01_single_gpu") CHECK(!names.empty());
    for (const std::string& parent : names) {
      CAPTURE(parent);
      CHECK(parents.contains(parent));
      CHECK(!descends_from(parents, parent, lesson));
    }
  }
}

TEST_CASE("the floors' checker finds cycles") {
  const auto include = [](const std::string& path) { return concat("#include \"", path, "\"\n"); };
  std::vector<SourceFile> files = {{"kernels/a.h", include("kernels/b.h") + include("kernels/c.h")},
                                   {"kernels/b.h", include("kernels/c.h")},
                                   {"kernels/c.h", ""}};
  CHECK(first_cycle(files) == "");
  files[2].text = include("kernels/b.h");
  CHECK(first_cycle(files) == "kernels/b.h -> kernels/c.h -> kernels/b.h");
  files[2].text = include("kernels/c.h");
  CHECK(first_cycle(files) == "kernels/c.h -> kernels/c.h");
}

TEST_CASE("time comes from one clock") {
  static const std::regex kClock(R"(\w+_clock\b|clock_gettime|MPI_Wtime|omp_get_wtime)");
  for (const auto& [path, text] : read_tree(source_root())) {
    // The emulator stands below the clock; tests may wait as they like.
    const bool is_free = path.starts_with("kernels/runtime/clock.") ||
                         is_under(path, "kernels/emulator/") || is_under(path, "tests/");
    if (is_free || !is_cpp(path)) continue;
    INFO(path << " has a clock of its own: kernels/runtime/clock.h");
    CHECK_FALSE(std::regex_search(text, kClock));
  }
}

}  // namespace
}  // namespace ladder
