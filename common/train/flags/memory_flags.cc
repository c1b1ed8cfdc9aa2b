#include "common/train/flags/memory_flags.h"

#include "common/train/flags/validators.h"

namespace ladder {

void add_memory_flags(CLI::App& app, RunConfig& config) {
  const char* const group = "Memory";
  app.add_option("--device-memory", config.device_memory,
                 "Cap of a rank's device memory, such as 64MiB [what the machine has free; on a "
                 "GPU a part of it "
                 "is left for cuBLAS and NCCL]")
      ->transform(byte_size())
      ->group(group);
  app.add_option("--host-memory", config.host_memory, "Cap of a rank's host memory [none]")
      ->transform(byte_size())
      ->group(group);
  app.add_option_function<std::string>(
         "--recompute",
         [&config](const std::string& name) { config.recompute = parse_recompute(name); },
         "Activations that backward computes again instead of keeping them: none, cheap, "
         "attention, mlp, block, whole (as block, but the last step runs again, too), every-K (all "
         "within groups of K blocks) [none]")
      ->group(group);
  app.add_flag("--offload-activations", config.offload_activations,
               "Activations that are kept wait for backward in host memory; the device holds those "
               "of two blocks")
      ->group(group);
}

}  // namespace ladder
