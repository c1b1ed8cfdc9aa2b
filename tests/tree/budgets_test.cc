// The budgets of size: what is short gets read.
#include <algorithm>
#include <map>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

constexpr size_t kMainLines = 60;     // lessons/NN_name/main.cc
constexpr size_t kLessonLines = 400;  // the rest of a lesson, without its benchmark
// Its idea has two halves: lists of actions, and what runs them.
constexpr size_t kPipelineLessonLines = 415;
// No trainer does its work: it has four algorithms, a checker, and what runs, times and shows them.
constexpr size_t kCollectivesLessonLines = 1050;
// It has its schedules, their flags, and a search with the memory that there is.
constexpr size_t kSchedulesLessonLines = 690;
// It is two programs: the ranks, and the supervisor that starts them again.
constexpr size_t kElasticLessonLines = 700;
// It has two algorithms, codecs and PowerSGD, and what both hold back, which checkpoints keep.
constexpr size_t kCompressionLessonLines = 850;
// It brings six lessons together, scatters the messages between them, and can do without overlap.
constexpr size_t kThreeDLessonLines = 555;
// It moves rows in chunks, so that products run beside the exchange.
constexpr size_t kSequenceLessonLines = 530;
// It has three parts: who has which tokens, the ring, and Ulysses.
constexpr size_t kContextLessonLines = 880;
// It has a router with drops, what moves tokens both ways, and two kinds of groups that sum
// gradients and share the optimizer's state.
constexpr size_t kExpertLessonLines = 960;
// No trainer: it describes layouts, among them copies on groups of machines, bounds and simulates
// them, searches, explains and chooses.
constexpr size_t kPlanningLessonLines = 1860;
constexpr size_t kHeaderLines = 150;
constexpr size_t kSourceLines = 400;

// What a learner is given to write is no part of the lesson's program.
bool is_puzzle(const std::string& path) { return path.find("/puzzles/") != path.npos; }

// "lessons/01_single_gpu" of a path in that lesson, else "".
std::string lesson_folder(const std::string& path) {
  if (!is_under(path, "lessons/")) return "";
  return path.substr(0, path.find('/', std::string("lessons/").size()));
}

size_t budget_of(const std::string& path) {
  if (is_under(path, "lessons/") && file_name(path) == "main.cc") return kMainLines;
  return path.ends_with(".h") ? kHeaderLines : kSourceLines;
}

bool has_budget(const std::string& path) {
  return is_cpp(path) && (is_under(path, "kernels/") || is_under(path, "common/") ||
                          is_under(path, "lessons/") || is_under(path, "tools/"));
}

std::vector<std::string> budget_violations(const std::vector<SourceFile>& files) {
  std::vector<std::string> findings;
  std::map<std::string, size_t> lesson_lines;
  for (const auto& [path, text] : files) {
    if (!has_budget(path)) continue;
    const size_t lines = lines_of(text).size();
    if (lines > budget_of(path)) {
      findings.push_back(concat(path, ": ", lines, " lines, may have ", budget_of(path)));
    }
    const std::string_view name = file_name(path);
    if (is_under(path, "lessons/") && name != "main.cc" && name != "benchmark.cc" &&
        !is_puzzle(path)) {
      lesson_lines[lesson_folder(path)] += lines;
    }
  }
  for (const auto& [lesson, lines] : lesson_lines) {
    const size_t budget = lesson == "lessons/00_collectives"            ? kCollectivesLessonLines
                          : lesson == "lessons/08_pipeline_parallel"    ? kPipelineLessonLines
                          : lesson == "lessons/09_3d_parallel"          ? kThreeDLessonLines
                          : lesson == "lessons/12_gradient_compression" ? kCompressionLessonLines
                          : lesson == "lessons/13_sequence_parallel"    ? kSequenceLessonLines
                          : lesson == "lessons/14_context_parallel"     ? kContextLessonLines
                          : lesson == "lessons/15_expert_parallel"      ? kExpertLessonLines
                          : lesson == "lessons/16_pipeline_schedules"   ? kSchedulesLessonLines
                          : lesson == "lessons/17_elastic"              ? kElasticLessonLines
                          : lesson == "lessons/19_planning"             ? kPlanningLessonLines
                                                                        : kLessonLines;
    if (lines <= budget) continue;
    findings.push_back(concat(lesson, ": ", lines, " lines in all, may have ", budget));
  }
  return findings;
}

TEST_CASE("every file keeps to its budget") {
  const std::vector<SourceFile> files = read_tree(source_root());
  REQUIRE(std::ranges::count_if(files, [](const auto& f) { return has_budget(f.path); }) > 10);
  const std::vector<std::string> findings = budget_violations(files);
  INFO(report(findings));
  CHECK(findings.empty());
}

SourceFile file_of(const std::string& path, size_t lines) {
  std::string text;
  for (size_t i = 0; i < lines; ++i) text += "//\n";
  return {path, text};
}

TEST_CASE("the budgets' checker allows just as many lines and not one more") {
  const auto [path, lines] = GENERATE(table<std::string, size_t>({
      {"lessons/01_x/main.cc", 60},
      {"lessons/01_x/x.h", 150},
      {"lessons/01_x/benchmark.cc", 400},
      {"kernels/a.h", 150},
      {"kernels/cpu/a.cc", 400},
      {"kernels/cuda/a.cu", 400},
      {"common/model/a.cc", 400},
      {"tools/a/a.cc", 400},
  }));
  CAPTURE(path, lines);
  CHECK(budget_violations({file_of(path, lines)}).empty());
  const std::vector<std::string> findings = budget_violations({file_of(path, lines + 1)});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0] == concat(path, ": ", lines + 1, " lines, may have ", lines));
  CHECK(budget_violations({file_of("tests/" + path, lines + 1)}).empty());
}

TEST_CASE("the budgets' checker adds up the files of a lesson") {
  std::vector<SourceFile> files = {
      file_of("lessons/01_x/a.h", 100),          file_of("lessons/01_x/a.cc", 200),
      file_of("lessons/01_x/b.cc", 100),         file_of("lessons/01_x/main.cc", 60),
      file_of("lessons/01_x/benchmark.cc", 200), file_of("lessons/01_x/puzzles/1.cc", 300),
      file_of("lessons/02_y/a.cc", 300)};
  CHECK(budget_violations(files).empty());
  files.push_back(file_of("lessons/01_x/c.h", 1));
  const std::vector<std::string> findings = budget_violations(files);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0] == "lessons/01_x: 401 lines in all, may have 400");
}

}  // namespace
}  // namespace ladder
