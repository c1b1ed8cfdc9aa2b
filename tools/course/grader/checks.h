// What is looked at in a learner's run. A check is worth points; all or none.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/course/grader/grading.h"

namespace ladder {

struct Check {
  int points = 0;
  std::string name;  // "gradients on 2 ranks"
  // What is wrong with the learner's program, in a line; empty: nothing.
  std::function<std::string(Grading&)> look;
  // Which rule is broken where this check alone fails.
  std::string hint;
};

// How a trainer is run, and how lesson 01 is run to compute the same.
struct Training {
  size_t num_ranks = 1;
  std::string flags{};  // of the lesson
  std::string first{};  // of lesson 01, which has one rank
  // Most lessons promise their bits ("Which bits agree" in reference.md), and the exercise says in
  // which order to add: then they are compared with those of the lesson's own program, too.
  bool same_bits = true;
  // The exercise starts communication in the background: it is run twice, with each as early and as
  // late as it may be, and the worse counts. So who starts too early or does not wait is wrong
  // every time.
  bool has_races = false;
};
inline Training with_races(Training training) {
  training.has_races = true;
  return training;
}
inline Training any_bits(Training training) {
  training.same_bits = false;
  return training;
}

// The gradients of both steps are lesson 01's, to 1e-11 of each tensor's size in fp64: the bound
// that the tests of the lessons keep (notes/numerics.md). After an update that is wrong nothing
// more is compared.
Check gradients(int points, const std::string& name, const Training& training,
                const std::string& hint);
// Parameters, moments, loss and gradient norm too.
Check update(int points, const std::string& name, const Training& training,
             const std::string& hint);
// The allocator has counted no more bytes, in any category, than for the lesson's own program.
// Wrong results are no saving: where results are not right there are no points.
Check bytes_held(int points, const Training& training, const std::string& hint);
// No kind of communication has more bytes or calls than in the lesson's own program, where results
// are right.
Check bytes_sent(int points, const Training& training, const std::string& hint,
                 const std::string& name = "bytes sent");
// Where results are right, Muon has made as many matrices orthogonal as in the lesson's own
// program.
Check orthogonalized(int points, const Training& training, const std::string& hint);
// In the trace of a run with right results, every rank begins some computation (a span whose name
// ends with `computation`, such as "backward") while a communication (a span of that name) is under
// way. Nothing is timed: communication is so slow that what may overlap does.
Check overlap(int points, const Training& training, const std::string& communication,
              const std::string& computation, const std::string& hint);

// The first step in which one of the metrics of these names is not that of the other run, in a
// sentence; empty: there is none.
std::string other_metric(const Outcome& learner, const Outcome& lesson,
                         const std::vector<std::string>& names);

}  // namespace ladder
