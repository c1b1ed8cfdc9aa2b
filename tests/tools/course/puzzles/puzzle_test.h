// How a puzzle is tried: the function that is handed out, the project's own, and wrong ones.
#pragma once

#include <initializer_list>
#include <numeric>
#include <type_traits>
#include <vector>

#include "tests/catch.h"
#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

using Ints = std::vector<int>;
using Doubles = std::vector<double>;

inline size_t sum_of(const Ints& numbers) {
  return static_cast<size_t>(std::accumulate(numbers.begin(), numbers.end(), 0));
}

// Expects of a checker that it knows the function that is handed out, finds the project's own one
// right, and finds all others wrong, in a case that a person can follow. Unless `example` is empty
// the first case is this one, the example of the statement.
template <class Function>
void try_puzzle(void (*check)(Cases&, Function), std::type_identity_t<Function> handed_out,
                std::type_identity_t<Function> own,
                std::initializer_list<std::type_identity_t<Function>> wrong,
                const std::string& example = "") {
  const auto verdict_of = [&](Function function) {
    Cases cases;
    return judge(cases, check, function);
  };
  CHECK(verdict_of(handed_out).text == "not written yet\n");
  Cases first;
  judge(first, check, handed_out);
  if (!example.empty()) CHECK(first.asked() == example);
  const Verdict verdict = verdict_of(own);
  INFO(verdict.text);
  CHECK(verdict.is_right);
  CHECK(wrong.size() >= 2);
  for (Function function : wrong) {
    const Verdict of_wrong = verdict_of(function);
    INFO(of_wrong.text);
    CHECK_FALSE(of_wrong.is_right);
    CHECK_THAT(of_wrong.text, StartsWith("wrong for "));
    CHECK(std::ranges::count(of_wrong.text, '\n') > 2);  // the case is drawn
    CHECK(std::ranges::count(of_wrong.text, '\n') <= 20);
  }
}

}  // namespace ladder::puzzles
