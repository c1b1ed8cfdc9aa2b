#include "common/train/flags/memory_flags.h"

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"

namespace ladder {

void add_memory_flags(FlagTable& flags, RunConfig& config) {
  // What backward computes again has the bits that it had before.
  flags.heading("Memory", ComparedBy::nothing);
  flags.add("--device-memory", config.device_memory,
            "Cap of a rank's device memory, such as 64MiB [what the machine has free; on a GPU a "
            "part of it is left for cuBLAS and NCCL]",
            byte_size());
  flags.add("--host-memory", config.host_memory, "Cap of a rank's host memory [none]", byte_size());
  flags.add_function(
      "--recompute",
      [&config](const std::string& name) { config.recompute = parse_recompute(name); },
      "Activations that backward computes again instead of keeping them: none, cheap, attention, "
      "mlp, block, whole (as block, but the last step runs again, too), every-K (all within groups "
      "of K blocks) [none]");
  flags.add("--offload-activations", config.offload_activations,
            "Activations that are kept wait for backward in host memory; the device holds those of "
            "two blocks");
}

}  // namespace ladder
