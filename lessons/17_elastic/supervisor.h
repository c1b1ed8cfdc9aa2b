// Lesson 17: elastic training. The supervisor starts the ranks, and starts them again without those
// that were lost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/io/child_process.h"
#include "common/train/flags/options.h"
#include "lessons/17_elastic/trainer.h"

namespace ladder {

// The supervisor's own flags.
struct SupervisorFlags {
  size_t num_ranks = 1;   // that train at the same time
  size_t num_spares = 0;  // that wait until one of them is lost
  size_t max_restarts = 3;
  std::string mpirun = "mpirun";  // the program that starts ranks
  void add_to(FlagTable& flags);
};

// How a run of the ranks has ended.
struct RanksEnd {
  ChildEnd mpirun;
  std::vector<size_t> lost;  // the ranks that were ended by a signal
  int lost_signal = 0;       // that signal
  int64_t step = 0;          // the step that the ranks were in; 0: they had not begun any
};

// Supervisor starts the ranks of one training run, as often as it takes. It has a temporary folder:
// for the file of steps, and for checkpoints if the user names no folder.
class Supervisor {
 public:
  // Throws UserError if the flags do not go together, and saves them if that is asked for.
  // `options` has been parsed; all arguments outlive this object.
  Supervisor(Options& options, const SupervisorFlags& flags, const ElasticTrainer::Flags& trainer,
             const CLI::App& app);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Trains. Returns 0, 2 if the ranks have refused what the user wants (they have said why), or
  // 128 + the signal that has told this process to end. Throws Error if training cannot go on.
  int run();

 private:
  // Returns the layout that the ranks that are left make.
  ProcessGrid layout() const;
  // Returns the layout as text, with the ranks that are idle and the wish if it is another one.
  std::string layout_note(const ProcessGrid& layout) const;
  // Starts the ranks and returns when all have ended.
  RanksEnd run_ranks(const ProcessGrid& layout);
  // Returns the value of --checkpoint-every for them.
  std::string checkpoint_every() const;
  // Returns the command that starts them.
  std::vector<std::string> command(const ProcessGrid& layout) const;
  // Takes note of what was lost, and says how it goes on. Throws Error if it is no use to start
  // again.
  void recover(const RanksEnd& end);
  // Says how to go on from the newest checkpoint, and so keeps the folder that it is in.
  std::string checkpoint_note();

  const SupervisorFlags& flags_;
  const CLI::App& app_;
  RunConfig config_;
  ProcessGrid wished_;
  std::vector<Failure> failures_;  // that have not happened yet
  size_t num_left_;                // ranks and spares that are left
  size_t num_restarts_ = 0;
  int64_t failed_step_ = 0;         // the step of the last failure
  bool resumes_;                    // whether the ranks are to go on from a checkpoint
  std::filesystem::path scratch_;   // the temporary folder
  bool needs_checkpoints_ = false;  // whether a checkpoint has to stay after training
};

// The main function of the lesson's program where mpirun has not started it. Returns the exit
// status.
int supervise(int argc, const char* const* argv);

}  // namespace ladder
