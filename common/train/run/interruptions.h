// What comes between the steps of a run: signals that end it, and the time of --checkpoint-every.
#pragma once

#include <cstdint>
#include <string>

#include "common/comm/agreed_steps.h"
#include "common/comm/job.h"
#include "common/train/trainer/config.h"
#include "kernels/runtime/clock.h"

namespace ladder {

// Interruptions lets all ranks end, or save, after the same step, whichever of them has got
// SIGTERM, SIGUSR1, SIGHUP or SIGINT.
//
// From the constructor on, until the process ends, the first of these signals is only noted, and
// the run ends after a step. If the process still runs --grace seconds later, it is ended by force.
// A second signal ends it at once. (One within half a second of the first counts as the same one:
// a terminal that is closed sends two.) A signal that was ignored, as under nohup, stays ignored.
class Interruptions {
 public:
  // `config` outlives this object. Collective. REQUIRES: the job has joined, since MPI may set
  // handlers when it begins; nothing else in the process uses SIGALRM.
  Interruptions(const CheckpointConfig& config, Job& job);

  // Called before every step. Tells the other ranks if this rank has got a signal. Returns false if
  // the ranks have agreed that the step before this one was the last.
  bool before_step(int64_t step);
  // Called after every step. Returns whether a checkpoint is due because the run ends, or because
  // the time has come. The same on all ranks.
  bool after_step(int64_t step);
  // Returns 128 + the number of the signal that has ended the run after a step; 0 if none has.
  int status() const { return signal_ == 0 ? 0 : 128 + signal_; }
  // Returns what such a run says at its end.
  std::string text() const;

 private:
  const CheckpointConfig& config_;
  const bool keeps_time_;
  AgreedSteps agreed_;
  Time saved_ = Clock::now();
  int64_t step_ = 0;
  int signal_ = 0;
};

}  // namespace ladder
