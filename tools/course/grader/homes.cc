#include "tools/course/grader/homes.h"

#include <sstream>

#include "kernels/runtime/check.h"
#include "tools/course/grader/printed.h"

namespace ladder {
namespace {

// Returns the table on 4 ranks, up to the factor of the longest home; empty: none is printed.
std::string table_of(Grading& grading, Whose whose, const std::string& homes) {
  const Outcome& run = grading.run(
      whose, 4,
      "--model nano --layers 6 --threads 1 --sample 0 --evaluate-every 0 --steps 1 --homes " +
          homes);
  const size_t begin = run.out.find("  home of"), end = run.out.find(" times the mean", begin);
  return end == std::string::npos ? "" : run.out.substr(begin, end - begin);
}

struct Homes {
  size_t matrices = 0;
  double longest = 0;  // times the mean
};

// Reads "  rank 0             4   120.0%  h.0.attn.c_attn.weight" and the line of the longest.
Homes read(const std::string& table) {
  Homes homes;
  std::istringstream in(table);
  std::string word;
  while (in >> word) {
    size_t rank = 0, matrices = 0;
    if (word == "rank" && in >> rank >> matrices) homes.matrices += matrices;
  }
  homes.longest = std::stod(word);
  return homes;
}

}  // namespace

Check homes_in_turn(int points, const std::string& hint) {
  const auto look = [](Grading& grading) -> std::string {
    const std::string ours = table_of(grading, Whose::learner, "in-turn");
    if (ours.empty()) return "no table of homes is printed";
    return other_line(ours, table_of(grading, Whose::lesson, "in-turn"));
  };
  return {points, "homes in turn", look, hint};
}

Check longest_home(int points, const std::string& hint) {
  const auto look = [](Grading& grading) -> std::string {
    const std::string table = table_of(grading, Whose::learner, "longest-first");
    if (table.empty()) return "no table of homes is printed";
    const Homes ours = read(table);
    const Homes theirs = read(table_of(grading, Whose::lesson, "longest-first"));
    if (ours.matrices != theirs.matrices) {
      return concat(ours.matrices, " matrices have homes, of ", theirs.matrices);
    }
    if (ours.longest <= theirs.longest) return {};
    return concat("on 4 ranks the longest home has ", ours.longest, " times the mean; ",
                  theirs.longest, " would do");
  };
  return {points, "the longest home", look, hint};
}

}  // namespace ladder
