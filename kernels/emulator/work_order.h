// Which pieces of work on streams come before which: by what CUDA promises, not by when they ran.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ladder::emulator {

// Pieces of work are counted from 1, over all streams, as they are given. 0 is none.
using WorkId = std::uint32_t;

// A vector clock [Fidge 1988; Mattern 1989]. It knows, for each stream by its number, the last
// piece of work that comes before. Earlier pieces of that stream come before, too.
class WorkClock {
 public:
  bool covers(size_t stream, WorkId work) const {
    return stream < last_.size() && last_[stream] >= work;
  }
  WorkId last(size_t stream) const { return last_[stream]; }
  void set(size_t stream, WorkId work) {
    if (last_.size() <= stream) last_.resize(stream + 1);
    last_[stream] = work;
  }
  // From now on what comes before `other` comes before this, too.
  void join(const WorkClock& other) {
    if (last_.size() < other.last_.size()) last_.resize(other.last_.size());
    for (size_t i = 0; i < other.last_.size(); ++i) {
      if (last_[i] < other.last_[i]) last_[i] = other.last_[i];
    }
  }

  // Returns whether `other` knows all that this one knows.
  bool is_before(const WorkClock& other) const {
    for (size_t i = 0; i < last_.size(); ++i) {
      if (last_[i] > 0 && !other.covers(i, last_[i])) return false;
    }
    return true;
  }

 private:
  std::vector<WorkId> last_;
};

// The piece of work that this OS thread runs.
inline constinit thread_local WorkId running_work = 0;

// The number of the stream that was given the work. The default stream has 0. Numbers of streams
// that were destroyed are used again.
size_t stream_of(WorkId work);
// Returns whether `earlier` comes before the running work in every order that CUDA allows.
// REQUIRES: running_work != 0.
bool comes_before_running(WorkId earlier);
// Returns whether the host has waited for the work, or for what comes after it.
bool host_has_waited_for(WorkId work);
// Returns whether that holds for all work that was ever given.
bool host_has_waited_for_all();

}  // namespace ladder::emulator
