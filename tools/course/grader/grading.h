// Runs of the programs that grading compares.
#pragma once

#include <chrono>
#include <csignal>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "kernels/runtime/check.h"
#include "tools/programs/scratch.h"

namespace ladder {

// Paths of the programs. All are built from this tree.
struct Programs {
  std::string mpirun;   // tools/mpirun
  std::string learner;  // the lesson's program with the learner's files in it
  std::string lesson;   // the same program as the lesson has it
  std::string first;    // lesson 01, which every trainer has to agree with
};

// Grading cannot go on, and not because of the learner's program.
class GradingError : public Error {
 public:
  using Error::Error;
};

// Whose program a run is of.
enum class Whose { learner, lesson, first };

// What a run has left.
struct Outcome {
  std::string complaint;  // why it did not end well, in one line; empty = it did
  std::string out;        // what it printed
  std::string folder;     // with dump/, metrics.jsonl and trace.json of a training run
  bool ended_well() const { return complaint.empty(); }
};

// Runs programs, each with the same flags once only, in a temporary folder of its own. `stop` is
// not 0 when grading shall end: a run that is under way is then ended, and a GradingError thrown.
class Grading {
 public:
  explicit Grading(const Programs& programs, const volatile std::sig_atomic_t* stop = nullptr)
      : programs_(programs), stop_(stop) {}

  // Runs the program on so many ranks. `flags`: separated by spaces. A learner's run that does not
  // end is stopped after kRunLimit, and no further one is tried; nor is one when all together have
  // taken kLimit. Status 0 alone is no good end: what the flags ask for must be there, too.
  // `checkpoint`: the path of one that is copied to c/ in the run's folder beforehand; empty: none.
  const Outcome& run(Whose whose, size_t num_ranks, const std::string& flags,
                     const std::string& checkpoint = {});
  // The same of a trainer: two steps of a very small model in fp64, with all its outputs.
  const Outcome& train(Whose whose, size_t num_ranks, const std::string& flags,
                       const std::string& checkpoint = {});

  static constexpr std::chrono::seconds kRunLimit{15}, kLimit{40};

 private:
  Outcome start(Whose whose, size_t num_ranks, const std::string& flags, const std::string& folder);

  Programs programs_;
  const volatile std::sig_atomic_t* stop_;
  Scratch scratch_;
  std::map<std::string, Outcome> outcomes_;  // by what was run
  std::chrono::duration<double> learners_time_{};
  bool has_hung_ = false;
};

}  // namespace ladder
