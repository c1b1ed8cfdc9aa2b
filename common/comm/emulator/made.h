// Which communicators a process has made, for tests.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ladder::emulator {

struct MadeCommunicator {
  std::string call;  // such as "ncclCommSplit"
  int size;
  int max_ctas;  // NCCL_CONFIG_UNDEF_INT if there is no limit
};

// Returns how many buffers are registered, as windows or not. With a communicator that has ended
// they stay registered, though nothing can end that any more.
size_t num_registrations();

// Returns them all, also those that have ended, from the first to the last.
std::vector<MadeCommunicator> made_communicators();

}  // namespace ladder::emulator
