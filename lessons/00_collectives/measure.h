// Collectives between real ranks: are they right, and how long do they take?
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/comm/cost_model.h"
#include "common/comm/job.h"
#include "lessons/00_collectives/plan.h"

namespace ladder {

// How a collective is done: by an algorithm of this lesson, or, where there is none, by the
// communicator's own collective ("shared").
using Way = std::optional<Algorithm>;
std::string name_of(Way way);

// A row of the table.
struct Measurement {
  Way way;
  size_t bytes = 0;    // of the whole vector
  size_t errors = 0;   // elements, on all ranks together, that are not exactly right
  double seconds = 0;  // of a call, in the fastest of some rounds; 0: not timed
};

// One collective on vectors of fp32. All functions are collective over the ranks of the job, and
// give the same on all of them.
class Bench {
 public:
  // Allocates vectors for the largest call. REQUIRES: the job has connected, on the CPU.
  Bench(Job& job, Collective collective, size_t max_bytes);

  // Checks one call; with `timed` times some more. Where the call needs equal parts, the vector is
  // shortened to a multiple of the ranks.
  Measurement measure(Way way, size_t bytes, bool timed);

 private:
  size_t num_elements(Way way, size_t bytes) const;
  // One call on the first n elements. Returns where the result is.
  TensorView run(Way way, const std::vector<Step>& steps, size_t n);
  size_t count_errors(TensorView result) const;
  double time_calls(Way way, const std::vector<Step>& steps, size_t n);

  Job& job_;
  Collective collective_;
  Stream stream_;
  Memory memory_;
  Tensor vector_, scratch_;
};

// The table of the measurements, as nccl-tests prints it, and the fitted costs where there are
// times.
std::string table_of(Collective collective, size_t num_ranks,
                     const std::vector<Measurement>& measurements);
// Times and fitted costs as a chart (SVG). REQUIRES: all were timed.
std::string chart_of(Collective collective, size_t num_ranks,
                     const std::vector<Measurement>& measurements);

}  // namespace ladder
