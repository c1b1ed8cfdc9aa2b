// A machine's calibration: the cluster that it is, measured.
#pragma once

#include <string>
#include <vector>

#include "common/cluster/cluster.h"
#include "common/comm/job.h"
#include "tools/measure/calibrator/step_calls.h"

namespace ladder {

struct CalibrationRequest {
  std::vector<LessonRun> runs;     // their kernels are measured
  std::vector<size_t> busy_ranks;  // with so many ranks at work
};

// Measures the kernels that the runs call, the machine's limits, and collectives, and returns the
// cluster on rank 0. (Other ranks get a part of it.) A run is left out for numbers of ranks that it
// does not take; throws a UserError if that leaves nothing. Collective over the job's ranks.
Cluster calibrate(const CalibrationRequest& request, Job& job);

// Returns the cluster as a file that read_cluster() reads. Each number has its source. REQUIRES: a
// cluster of calibrate().
std::string file_text(const Cluster& cluster);

// Returns the point of a call: its work as a cluster's file has it.
KernelPoint point_of(const KernelCall& call, size_t busy_ranks, double seconds);

}  // namespace ladder
