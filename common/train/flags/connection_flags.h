// The flags that say how ranks communicate.
#pragma once

#include <cstddef>
#include <string>

#include "common/comm/job.h"
#include "common/train/trainer/flag_value.h"

namespace ladder {

struct ConnectionFlags {
  std::string communication = "auto";
  bool no_shared_memory = false;
  size_t network_bandwidth = 0;  // bytes per second and rank; 0 = as fast as it goes
  bool check_collectives = false;
  double collective_timeout = 0;  // seconds; 0 = no timeout
  size_t nccl_ctas = 0;           // 0 = NCCL decides
  bool no_nccl_split = false;
  bool nccl_windows = false;
  bool no_numa = false;

  void add_to(FlagTable& flags);
  // Throws UserError if the flags do not go together, or not with the device.
  void check(DeviceType device) const;
  ConnectOptions options(DeviceType device) const;
};

}  // namespace ladder
