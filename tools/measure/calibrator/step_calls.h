// The kernels that a step of a lesson calls, and how long each of them takes on this machine.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "kernels/runtime/cost.h"

namespace ladder {

// A lesson and the flags of its program, apart from those that say where it runs.
struct LessonRun {
  std::string lesson;  // "02_ddp"
  std::vector<std::string> flags;
};

// A kernel with a dtype and a cost. Copies are the kernel "copy".
struct StepCall {
  KernelCall call = {};
  size_t count = 0;                  // how often the ranks of a step call it
  std::vector<double> seconds = {};  // of its calls on this rank
};

// Returns a call's name, dtype and cost as something that can be compared.
inline auto key_of(const KernelCall& call) {
  const Cost& c = call.cost;
  return std::tuple(std::string_view(call.name), call.dtype, c.product_flops, c.other_flops,
                    c.bytes_read, c.bytes_written, c.m, c.n, c.k, c.transpose_b);
}
using StepCalls = std::map<decltype(key_of(KernelCall())), StepCall>;

// Adds the calls of a step of the lesson, on all `num_ranks` ranks. Nothing is computed. Throws
// UserError if the lesson is none of lesson_programs() (lesson 19), or if it refuses the flags or
// the number of ranks.
void add_calls(const LessonRun& run, size_t num_ranks, StepCalls& calls);

// Takes steps as one of `num_ranks` ranks, without the others, and adds the seconds of each call.
// Kernels compute, on the tensors of a step and in its order, so caches are as in a step. Nothing
// is communicated. It takes at least three steps and `least_seconds`. REQUIRES: add_calls() was
// called.
void time_calls(const LessonRun& run, size_t rank, size_t num_ranks, StepCalls& calls,
                double least_seconds = 1);

}  // namespace ladder
