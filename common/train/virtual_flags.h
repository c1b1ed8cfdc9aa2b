// The flags of --device virtual: which cluster is simulated, and what is shown of it.
#pragma once

#include <cstddef>
#include <string>

#include "common/io/cli11.h"
#include "common/train/config.h"

namespace ladder {

struct VirtualFlags {
  static constexpr const char* kDevice = "virtual";

  std::string cluster;   // a name or a file (cluster.h); empty = none
  size_t num_ranks = 0;  // 0 = a rank for each device
  bool breakdown = false;

  void add_to(CLI::App& app, bool distributed);
  // Throws UserError unless --cluster is given if the device is virtual, and only then.
  void check(bool is_virtual) const;
  // Throws UserError if the run is asked for something that needs values: there are none.
  static void refuse_values(const RunConfig& config, bool samples);
};

}  // namespace ladder
