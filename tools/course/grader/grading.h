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

// When the learner's program runs what it starts in the background (timing.cc). A right program
// computes the same with all of them.
enum class Timing {
  any,    // as it comes
  early,  // before the start returns
  late,   // when it is waited for
  slow,   // each takes so long that something can be computed meanwhile
};

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

  // Runs the program on so many ranks. `flags`: separated by spaces. Status 0 alone is no good end:
  // what the flags ask for must be there, too. `checkpoint`: the path of one that is copied to c/
  // in the run's folder beforehand; empty: none.
  //
  // A learner's run may take kTimes as long as the slowest run so far of another program, and
  // kRunLimit more: so a busy machine takes no points. (The lesson's own program is run before the
  // learner's first run.) One that does not end is stopped then, and no further one is tried; nor
  // is one when all together have taken kTimes as long as so many of those, and kLimit more.
  const Outcome& run(Whose whose, size_t num_ranks, const std::string& flags,
                     const std::string& checkpoint = {}, Timing timing = Timing::any);
  // The same of a trainer: two steps of a very small model in fp64, with all its outputs.
  const Outcome& train(Whose whose, size_t num_ranks, const std::string& flags,
                       const std::string& checkpoint = {}, Timing timing = Timing::any);

  static constexpr std::chrono::seconds kRunLimit{10}, kLimit{40};
  static constexpr double kTimes = 10;

 private:
  using Seconds = std::chrono::duration<double>;
  const Outcome& outcome_of(Whose whose, size_t num_ranks, const std::string& flags,
                            const std::string& checkpoint, Timing timing);
  Outcome start(Whose whose, const std::vector<std::string>& command, const std::string& folder,
                Timing timing);
  std::vector<std::string> command_of(Whose whose, size_t num_ranks,
                                      const std::string& flags) const;

  Programs programs_;
  const volatile std::sig_atomic_t* stop_;
  Scratch scratch_;
  std::map<std::string, Outcome> outcomes_;  // by what was run
  Seconds slowest_{};                        // run of another program than the learner's
  Seconds learners_time_{}, expected_time_{};
  bool has_hung_ = false;
};

}  // namespace ladder
