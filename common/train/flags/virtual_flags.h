// The flags of --device virtual: which cluster is simulated, and what is shown of it.
#pragma once

#include <cstddef>
#include <string>

#include "common/train/trainer/config.h"

namespace ladder {

// Adds --cluster and --program, whose help texts begin with `when`. The value "list" ends parsing
// by a CLI::Success with the names that are known.
void add_cluster_flags(FlagTable& flags, std::string& cluster, std::string& program,
                       const std::string& when);

// Returns `in_run`, but no value in a run on the virtual device, which has none of its own.
ValueInRun on_real_device(const ValueInRun& in_run);

struct VirtualFlags {
  static constexpr const char* kDevice = "virtual";

  std::string cluster;         // --cluster: a name or a file (cluster.h); empty = not given
  std::string program;         // --program: a name or a file (cluster.h); empty = the lessons'
  size_t num_ranks = 0;        // --ranks; 0 = one for each device of the cluster
  bool breakdown = false;      // --breakdown: print where a step's time goes
  bool fixed_network = false;  // --fixed-network: only with the network that is assumed

  // Adds the flags to a program's. Only a program with several ranks has --ranks.
  void add_to(FlagTable& flags, bool distributed);
  // Throws a UserError if the device is virtual and --cluster is missing, or if it is not virtual
  // and one of these flags is given.
  void check(bool is_virtual) const;
  // The virtual device knows how long an operation takes, but computes no elements: tensors have
  // shapes and no contents. So it refuses what reads or writes contents, as a UserError that names
  // the flag: files of parameters, losses or results (--init, --checkpoint, --export, --dump,
  // --metrics, --tensorboard), --tokenizer, and text (`samples`: --sample or --prompt is given).
  static void refuse_values(const RunConfig& config, bool samples);
};

}  // namespace ladder
