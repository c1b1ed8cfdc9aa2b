// Bugs of GPU programs, each planted in a kernel. A kernel's template parameter says whether it has
// the bug; without it the kernel is as close to the wrong one as a right one can be.
#pragma once

#include <string>
#include <vector>

namespace ladder::planted {

struct Bug {
  std::string name;
  // What the emulator must say after naming kernel and block. "@x" stands for the file and line
  // that end in the comment "// @x", and "0x?" for any address.
  std::string message;
  void (*run)(bool wrong);  // launches the kernel
};

// Each throws what the launch throws.
std::vector<Bug> shared_races();  // in shared memory
std::vector<Bug> global_races();  // in global memory
std::vector<Bug> bad_accesses();  // out of bounds, misaligned
std::vector<Bug> undefined_reads();
std::vector<Bug> stream_races();  // of work on different streams
std::vector<Bug> bad_waits();     // barriers and shuffles that not all threads reach
std::vector<Bug> bad_shapes();    // more shared memory than the device has

}  // namespace ladder::planted
