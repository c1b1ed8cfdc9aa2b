#include "common/train/flags/connection_flags.h"

#include <memory>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "kernels/runtime/check.h"

namespace ladder {

void ConnectionFlags::add_to(FlagTable& flags) {
  const FlagTraits kNotCompared = {.compared = ComparedBy::nothing};
  flags.heading("Between ranks");
  flags.add("--communication", communication,
            "Of data on GPUs: auto, nccl (a GPU for each rank), staged (through host memory) "
            "[auto: nccl where it can be]");
  flags.add("--no-shared-memory", no_shared_memory,
            "Send messages also between ranks of one machine");
  flags.add("--network-bandwidth", network_bandwidth,
            "Slow messages down to so many bytes a second and rank, such as 100MB; needs "
            "--no-shared-memory [as fast as they go]",
            byte_size(), kNotCompared);
  flags.add("--check-collectives", check_collectives,
            "Compare every call with the peers' (always done in shared memory)", kNotCompared);
  flags.add("--collective-timeout", collective_timeout,
            "Seconds until ranks that do not arrive are named; 0 = wait for ever [0]", real(0, 1e6),
            kNotCompared);
  flags.add("--nccl-ctas", nccl_ctas,
            "Thread blocks that NCCL runs for a group at most; products leave it as many "
            "multiprocessors; 0 = NCCL decides, and products take all [0]",
            whole(0, 64));
  flags.add("--no-nccl-split", no_nccl_split,
            "Make NCCL's groups anew, not from the group of all ranks", kNotCompared);
  flags.add("--nccl-windows", nccl_windows,
            "Let GPUs read and write each other's buffers directly, where NCCL (2.27 and newer) "
            "and the GPUs can");
  flags.add("--no-numa", no_numa, "Let ranks use all CPUs, not only those beside their GPUs",
            kNotCompared);
}

void ConnectionFlags::check(DeviceType device) const {
  const bool is_known =
      communication == "auto" || communication == "nccl" || communication == "staged";
  if (!is_known) {
    throw UserError(concat("--communication ", communication, ": expected auto, nccl or staged"));
  }
  if (communication != "auto" && device == DeviceType::cpu) {
    throw UserError(concat("--communication ", communication,
                           ": for data on GPUs, and the device is the cpu; add --device cuda or "
                           "emulator, or leave it out"));
  }
  if ((nccl_ctas > 0 || nccl_windows || no_nccl_split) &&
      (device == DeviceType::cpu || communication == "staged")) {
    const char* const flag = nccl_ctas > 0  ? "--nccl-ctas"
                             : nccl_windows ? "--nccl-windows"
                                            : "--no-nccl-split";
    throw UserError(concat(flag, ": NCCL carries data between GPUs, and here they ",
                           device == DeviceType::cpu ? "are on the cpu; add --device cuda"
                                                     : "go through host memory; leave out "
                                                       "--communication staged"));
  }
  if (network_bandwidth == 0) return;
  if (!no_shared_memory) {
    throw UserError(concat("--network-bandwidth ", network_bandwidth,
                           ": ranks of one machine share memory and send nothing that could be "
                           "slowed down; add --no-shared-memory"));
  }
  if (device != DeviceType::cpu && communication != "staged") {
    throw UserError(concat("--network-bandwidth ", network_bandwidth,
                           ": NCCL's messages cannot be slowed down; add --communication staged"));
  }
}

ConnectOptions ConnectionFlags::options(DeviceType device) const {
  const std::string& name = communication;
  ConnectOptions options = {
      .device = device,
      .device_path = name == "nccl"     ? DevicePath::nccl
                     : name == "staged" ? DevicePath::staged
                                        : DevicePath::automatic,
      .shared_memory = !no_shared_memory,
      .numa = !no_numa,
      .mpi = {.check_collectives = check_collectives, .timeout_seconds = collective_timeout},
      .nccl = {.max_thread_blocks = nccl_ctas, .split = !no_nccl_split, .windows = nccl_windows}};
  if (network_bandwidth > 0) {
    options.mpi.network = std::make_shared<TokenBucket>(static_cast<double>(network_bandwidth));
  }
  return options;
}

}  // namespace ladder
