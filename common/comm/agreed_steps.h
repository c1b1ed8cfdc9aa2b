// What one rank decides about the step that comes next, and all ranks know when they have made it.
#pragma once

#include <cstdint>
#include <optional>

#include "common/comm/mpi_world.h"
#include "common/comm/watchdog.h"

namespace ladder {

// AgreedSteps lets ranks end, or save, after the same step, without a collective of its own. A rank
// names the step that it is about to begin, and every rank looks after each step whether it was
// named.
//
// All see the same, because each step has a sum over all ranks (of the loss or the gradient's norm)
// that no rank leaves before all have entered it. When any rank has finished step s, the rank that
// named s has begun it, and the name was written before that. And two ranks cannot name different
// steps for the end: when a rank names s, all have begun s - 1, so none can still name an earlier
// step; and before a rank could name s + 1 it finishes s, looks, and ends.
//
// The name is in memory that the ranks of a machine share. Other machines get it in a message, for
// which a thread of each machine's first rank looks ten times a second; name() waits until it is
// there. On one machine there is no such thread.
class AgreedSteps {
 public:
  // What the ranks do after the step.
  using Word = std::atomic<uint64_t> NodeBoard::*;
  static constexpr Word kEnd = &NodeBoard::end, kSave = &NodeBoard::save;

  // `world` outlives this object; null: there is one rank. Collective.
  explicit AgreedSteps(MpiWorld* world);
  ~AgreedSteps();
  AgreedSteps(const AgreedSteps&) = delete;
  AgreedSteps& operator=(const AgreedSteps&) = delete;

  // Names the step, with a number from 0 to 255, unless it has been named. REQUIRES: this rank
  // begins the step next; only one rank ever names steps to save.
  void name(Word word, int64_t step, int number);
  // Returns the number that the step was named with; nothing if it was not. REQUIRES: this rank has
  // made the step, and has not begun the next.
  std::optional<int> find(Word word, int64_t step);

 private:
  // Returns whether it has written the name, which it does unless this step or a later one is
  // there.
  bool write(Word word, uint64_t name);
  void listen();

  MpiWorld* world_;
  NodeBoard own_;  // of the only rank
  NodeBoard* board_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::optional<Watchdog> listener_;
};

}  // namespace ladder
