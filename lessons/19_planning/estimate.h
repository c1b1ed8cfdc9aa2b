// What a candidate needs and how long its step takes: bounds that cost little, and simulations.
#pragma once

#include "common/cluster/comm_time.h"
#include "common/train/program/needed_memory.h"
#include "lessons/19_planning/candidate.h"

namespace ladder {

// What the ranks of a candidate that need the most memory need, and whether there is room for it.
struct MemoryNeed : NeededMemory {
  size_t for_libraries = 0;  // bytes of each device that are left free
  bool fits = true;
};

// Returns what driver, cuBLAS and NCCL take of a GPU in a run with so many communicators, or what
// the request says; 0 of a CPU.
size_t memory_for_libraries(const PlanRequest& request, size_t num_communicators);

// A simulated step.
struct StepTime {
  double seconds = 0;
  MemoryUse device;  // of the fullest rank
};

// Returns how many micro-batches each rank runs in a step.
size_t num_micro_batches(const Candidate& candidate, const PlanRequest& request);

// Returns the part of a pipeline's time in which a stage waits for the others,
// (p - 1) / (m + p - 1) with p stages and m micro-batches. [Narayanan21, section 2.2]
double bubble_of(const Candidate& candidate, const PlanRequest& request);

// Returns a time that no step is faster than: that of its matrix products at the best efficiency of
// the device, with the bubble and at least what is computed again.
double products_bound(const Candidate& candidate, const PlanRequest& request,
                      const ModelDescription& model);

// Returns a tighter bound: the time of the transformer blocks, from simulations of models with one
// and two of them. It depends on few properties of the candidate.
double block_bound(const Candidate& candidate, const PlanRequest& request,
                   const ModelConfig& model);

// Returns the operations of matrix products that are computed again, as a part of all.
double recomputed_part(const Candidate& candidate, const PlanRequest& request);

// Predicts the memory of the first rank of each pipeline stage; the others need the same. It stops
// at the first that does not fit. Throws UserError if the lesson refuses the candidate.
MemoryNeed memory_need(const Candidate& candidate, const PlanRequest& request);

// Simulates a step on a cluster. Where there are many micro-batches it simulates few: a step's time
// is linear in their number if there are more of them than stages. If replicas communicate only at
// the end of a step, one of them alone tells what a further micro-batch takes. The result is within
// 1.5 % of the whole simulation, or 3 % with uneven stages, which take longest to become regular.
StepTime simulate_step(const Candidate& candidate, const PlanRequest& request,
                       const Cluster& cluster);

// Simulates one of the replicas among which the candidate shares the batch: the step's time if
// replicas communicated in no time. With ZeRO only a replica's own part of the parameters is
// updated.
StepTime simulate_replica(const Candidate& candidate, const PlanRequest& request,
                          const Cluster& cluster);

}  // namespace ladder
