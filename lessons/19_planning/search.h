// Looks for the fastest layouts that fit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lessons/19_planning/estimate.h"

namespace ladder {

// A layout whose step was simulated, with what slows it down as parts of the step.
struct Plan {
  Candidate candidate;
  double seconds = 0;
  bool is_bound = false;  // time ran out before a simulation: the step takes at least `seconds`
  double model_utilization = 0;
  MemoryNeed need;
  double communication = 0;  // the part that is saved if it takes no time; NaN: time ran out
  double bubble = 0;         // (p - 1) / (m + p - 1), of the rest of the step
  double again = 0;          // operations of products that are computed again, as a part of all
};

// A group of candidates of one idea: "02_ddp", or lesson 09 with tensor groups alone.
struct Family {
  std::string name;
  Candidate frugal;                  // the member that needs least memory
  MemoryNeed need = {};              // of `frugal`; nothing: it cannot be divided so
  std::optional<double> bound = {};  // seconds; no member that was not simulated is faster
};

// What a search has found.
struct SearchResult {
  std::vector<Plan> plans;       // that were simulated, the fastest first
  std::vector<Family> families;  // in the order of the lessons
  size_t num_candidates = 0;
  size_t num_unknown = 0;  // candidates that may be faster than the first plan: time ran out
};

// Returns the name of the family that a candidate belongs to.
std::string family_of(const Candidate& candidate);

// Searches best first. Each candidate has a bound: a time that it is certainly not faster than.
// The one with the smallest bound is looked at more closely: does it fit, how long does one of its
// replicas take, and at last how long the whole step takes. The search ends when the fastest step
// is faster than all bounds and `num_wanted` steps were simulated, or after `seconds`, even in the
// middle of a step. After a quarter of them without a plan, the first candidate that fits is
// simulated. Whatever `seconds` are, each family's memory is predicted first; so there is a plan if
// anything is known to fit, though it may be one with a bound.
SearchResult search_plans(const PlanRequest& request, const ModelConfig& model, size_t num_wanted,
                          double seconds);

}  // namespace ladder
