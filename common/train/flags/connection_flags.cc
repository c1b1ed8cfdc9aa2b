#include "common/train/flags/connection_flags.h"

#include <memory>

#include "common/train/flags/validators.h"
#include "kernels/runtime/check.h"

namespace ladder {

void ConnectionFlags::add_to(CLI::App& app) {
  const char* const group = "Between ranks";
  app.add_option("--communication", communication,
                 "Of data on GPUs: auto, nccl (a GPU for each rank), staged (through host memory) "
                 "[auto: nccl where it can be]")
      ->group(group);
  app.add_flag("--no-shared-memory", no_shared_memory,
               "Send messages also between ranks of one machine")
      ->group(group);
  app.add_option("--network-bandwidth", network_bandwidth,
                 "Slow messages down to so many bytes a second and rank, such as 100MB; needs "
                 "--no-shared-memory [as fast as they go]")
      ->transform(byte_size())
      ->group(group);
  app.add_flag("--check-collectives", check_collectives,
               "Compare every call with the peers' (always done in shared memory)")
      ->group(group);
  app.add_option("--collective-timeout", collective_timeout,
                 "Seconds until ranks that do not arrive are named; 0 = wait for ever [0]")
      ->check(real(0, 1e6))
      ->group(group);
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
      .mpi = {.check_collectives = check_collectives, .timeout_seconds = collective_timeout}};
  if (network_bandwidth > 0) {
    options.mpi.network = std::make_shared<TokenBucket>(static_cast<double>(network_bandwidth));
  }
  return options;
}

}  // namespace ladder
