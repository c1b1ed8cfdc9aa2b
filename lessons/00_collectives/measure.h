// Checks collectives between real ranks, and measures how long they take.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/comm/cost_model.h"
#include "common/comm/job.h"
#include "lessons/00_collectives/plan.h"

namespace ladder {

// How a collective is done: by an algorithm of this lesson, or, if the optional is empty, by the
// communicator's own collective ("shared").
using Way = std::optional<Algorithm>;
std::string name_of(Way way);

// One line of the table.
struct Measurement {
  Way way;
  size_t bytes = 0;    // bytes of the whole vector
  size_t errors = 0;   // wrong elements, on all ranks together
  double seconds = 0;  // seconds a call in the fastest round; 0 if it was not timed
};

// A Bench runs one collective on vectors of fp32. All its functions are collective over the ranks
// of the job, and return the same on all of them.
class Bench {
 public:
  // Allocates vectors of `max_bytes` bytes. REQUIRES: the job has connected, on the CPU.
  Bench(Job& job, Collective collective, size_t max_bytes);

  // Makes one call and checks its result; with `timed` it then measures the time of further calls.
  // If the collective needs equal parts, the vector is shortened to a multiple of the ranks.
  Measurement measure(Way way, size_t bytes, bool timed);

 private:
  size_t num_elements(Way way, size_t bytes) const;
  // Makes one call on the first n elements, and returns the view that has its result.
  TensorView run(Way way, const std::vector<Exchange>& exchanges, size_t n);
  size_t count_errors(TensorView result) const;
  double time_calls(Way way, const std::vector<Exchange>& exchanges, size_t n);

  Job& job_;
  Collective collective_;
  Stream stream_;
  Memory memory_;
  Tensor vector_, scratch_;
};

// Returns the table of the measurements, in the form of nccl-tests, and the fitted costs if there
// are times.
std::string table_of(Collective collective, size_t num_ranks,
                     const std::vector<Measurement>& measurements);
// Returns a chart (SVG) of the times and the fitted costs. REQUIRES: all measurements are timed.
std::string chart_of(Collective collective, size_t num_ranks,
                     const std::vector<Measurement>& measurements);

}  // namespace ladder
